package loadwatcher

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/plimsoll-scheduler/plimsoll/pkg/source/loadwatcherclient/wire"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// fakeDatadog knows the cpu and memory of n1 and the cpu of n2, each with two points a minute apart, as Datadog's agent reports them.
func fakeDatadog(t *testing.T) string {
	t.Helper()
	server := check.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("DD-API-KEY") != "t0ken" || r.Header.Get("DD-APPLICATION-KEY") != "s3cond" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), "system.cpu.idle") {
			_, _ = io.WriteString(w, `{"data":{"attributes":{"series":[],"times":[],"values":[]}}}`)
			return
		}
		minute := time.Now().Truncate(time.Minute).UnixMilli()
		_, _ = fmt.Fprintf(w, `{"data":{"attributes":{"series":[
			{"group_tags":["host:n1.example.com"],"query_index":0},{"group_tags":["host:n2.example.com"],"query_index":0},
			{"group_tags":["host:n1.example.com"],"query_index":1}],
			"times":[%d,%d],"values":[[80,70],[0,null],[0.5,0.5]]}}}`, minute-60_000, minute)
	}))
	return server.URL
}

func TestService_ServesHostedProviders(t *testing.T) {
	service := startService(t, fakeCluster(t), "--metrics-provider-name=Datadog", "--metrics-provider-address="+fakeDatadog(t),
		"--token-file="+check.File(t, "token", "t0ken\n"), "--application-key-file="+check.File(t, "key", "s3cond\n"),
		"--host-name-suffix=.example.com")
	untilHealthy(t, http.DefaultClient, service.url)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	type metrics map[string]float64 // percent, by type and operator
	got := map[string]metrics{}
	for _, host := range []string{"n1", "n2"} {
		code, body, err := get(t, http.DefaultClient, service.url+"/watcher?host="+host)
		if err != nil || code != http.StatusOK {
			t.Fatalf("status %d, %s, error %v", code, body, err)
		}
		var document wire.Document
		check.OK(t, json.Unmarshal([]byte(body), &document))
		check.Equal(t, "source", "Datadog", document.Source)
		got[host] = metrics{}
		for _, m := range document.Data.NodeMetricsMap[host].Metrics {
			got[host][m.Type+" "+m.Operator] = *m.Value
		}
	}
	// n1: (20+30)/2 ± 5; n2: the mean of one value, since a null is a gap.
	want := map[string]metrics{
		"n1": {"CPU AVG": 25, "CPU STD": 5, "Memory AVG": 50, "Memory STD": 0},
		"n2": {"CPU AVG": 100, "CPU STD": 0},
	}
	check.Equal(t, "load", want, got, cmpopts.EquateApprox(0, 1e-9))
}

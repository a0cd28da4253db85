package loadwatcher

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/plimsoll-scheduler/plimsoll/pkg/source/loadwatcherclient/wire"
)

// fakeSignalFx knows the cpu and memory of n1 and the cpu of n2, each with two points a minute apart.
func fakeSignalFx(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-SF-Token") != "t0ken" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		minute := time.Now().Truncate(time.Minute).UnixMilli()
		memory := strings.Contains(r.URL.Query().Get("query"), "memory.utilization")
		switch {
		case r.URL.Path == "/v1/timeserieswindow" && memory:
			_, _ = fmt.Fprintf(w, `{"data":{"M1":[[%d,50],[%d,50]]},"errors":[]}`, minute-60_000, minute)
		case r.URL.Path == "/v1/timeserieswindow":
			_, _ = fmt.Fprintf(w, `{"data":{"C1":[[%[1]d,20],[%[2]d,30]],"C2":[[%[1]d,100],[%[2]d,null]]},"errors":[]}`, minute-60_000,
				minute)
		case memory:
			_, _ = io.WriteString(w, `{"count":1,"results":[{"id":"M1","dimensions":{"host":"n1.example.com"}}]}`)
		default:
			_, _ = io.WriteString(w,
				`{"count":2,"results":[{"id":"C1","dimensions":{"host":"n1.example.com"}},{"id":"C2","dimensions":{"host":"n2.example.com"}}]}`)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// fakeDatadog knows what fakeSignalFx knows, as Datadog's agent reports it.
func fakeDatadog(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	t.Cleanup(server.Close)
	return server.URL
}

func TestService_ServesHostedProviders(t *testing.T) {
	token, key := writeFile(t, "token", "t0ken\n"), writeFile(t, "key", "s3cond\n")
	for name, args := range map[string][]string{
		"SignalFx": {"--metrics-provider-address=" + fakeSignalFx(t)},
		"Datadog":  {"--metrics-provider-address=" + fakeDatadog(t), "--application-key-file=" + key},
	} {
		t.Run(name, func(t *testing.T) {
			service := startService(
				t,
				fakeCluster(t),
				append(args, "--metrics-provider-name="+name, "--token-file="+token, "--host-name-suffix=.example.com")...)
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
				if err := json.Unmarshal([]byte(body), &document); err != nil {
					t.Fatal(err)
				}
				if document.Source != name {
					t.Errorf("source %q", document.Source)
				}
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
			if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
				t.Errorf("load (-want +got):\n%s", diff)
			}
		})
	}
}

package sources

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

// hostedServer speaks what is needed of SignalFx and Datadog: n1 of the cluster prod carries 25 % cpu and 50 % memory.
func hostedServer(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now, percent := time.Now().Truncate(time.Minute).UnixMilli(), 25
		if strings.Contains(r.URL.Query().Get("query"), "memory") {
			percent = 50
		}
		switch r.URL.Path {
		case "/v1/timeserieswindow", "/v2/metrictimeseries":
			if r.Header.Get("X-SF-Token") != "t0ken" ||
				!strings.Contains(r.URL.Query().Get("query"), " AND host:*.example.com AND cluster:prod") {
				t.Errorf("SignalFx was asked with %q for %s", r.Header, r.URL)
			}
			if r.URL.Path == "/v1/timeserieswindow" {
				_, _ = fmt.Fprintf(w, `{"data":{"A%d":[[%d,%d]]},"errors":[]}`, percent, now, percent)
			} else {
				_, _ = fmt.Fprintf(w, `{"count":1,"results":[{"id":"A%d","dimensions":{"host":"n1.example.com"}}]}`, percent)
			}
		case "/api/v2/query/timeseries":
			body, _ := io.ReadAll(r.Body)
			if r.Header.Get("DD-API-KEY") != "t0ken" || r.Header.Get("DD-APPLICATION-KEY") != "s3cond" ||
				!strings.Contains(string(body), "{host:*.example.com,cluster_name:prod}") {
				t.Errorf("Datadog was asked with %q for %s", r.Header, body)
			}
			_, _ = fmt.Fprintf(
				w,
				`{"data":{"attributes":{"series":[{"group_tags":["host:n1.example.com"],"query_index":0},{"group_tags":["host:n1.example.com"],"query_index":1}],"times":[%d],"values":[[25],[50]]}}}`,
				now,
			)
		default:
			t.Errorf("%s was asked for", r.URL)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

func TestOpen_HostedServices(t *testing.T) {
	server := hostedServer(t)
	for _, provider := range []config.MetricProviderSpec{
		{Type: config.SignalFx},
		{Type: config.Datadog, Dialect: config.DialectUtilization, ApplicationKeyFile: write(t, t.TempDir(), "key", "s3cond\n")},
	} {
		t.Run(string(provider.Type), func(t *testing.T) {
			provider.Address, provider.TokenFile = server.URL, write(t, t.TempDir(), "token", "t0ken\n")
			provider.ClusterName, provider.HostNameSuffix = "prod", ".example.com"
			provider.Timeout.Duration = time.Minute
			// The account's token is nobody's but the cluster's.
			account := Account{Dir: t.TempDir()}
			write(t, account.Dir, "token", "account")
			s, err := Open(t.Context(), reading.Cluster{Nodes: oneNode(t)}, config.LoadSpec{MetricProvider: provider}, account,
				clock.RealClock{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.(io.Closer).Close() }()
			batch, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{5 * time.Minute}})
			if err != nil || len(batch.Samples) != 1 {
				t.Fatalf("samples %v, error %v", batch.Samples, err)
			}
			got := batch.Samples[0]
			if got.Node != "n1" || got.Stats[load.CPU].Mean != 0.25 || got.Stats[load.Memory].Mean != 0.5 {
				t.Errorf("sample %+v", got)
			}
			if s.Name() != string(provider.Type) {
				t.Errorf("name %q", s.Name())
			}
		})
	}
}

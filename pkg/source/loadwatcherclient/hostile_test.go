package loadwatcherclient

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
)

func TestFetch_HostileServer(t *testing.T) {
	const nodes = 1000
	const budget = 1<<20 + nodes*4<<10
	const head = `{"timestamp":1,"data":{"NodeMetricsMap":{`
	for name, tt := range map[string]struct{ head, text, want string }{
		"hosts": {head, `"x":{},`, "too many hosts or metrics, the bound for 1000 nodes"},
		"metrics": {head, `"x":{"metrics":[` + strings.Repeat("{},", 20_000) + `{}]},`,
			"too many hosts or metrics, the bound for 1000 nodes"},
		"long names":  {head, `"` + strings.Repeat("x", 10_000) + `":{},`, "larger than 5144576 bytes, the bound for 1000 nodes"},
		"unknown":     {`{`, `"x":1,`, "more than 20160 elements, the bound for 1000 nodes"},
		"a value":     {`{"source":"`, "x", "a value is larger than 65536 bytes"},
		"a host":      {head + `"x":{"metrics":[`, "{},", "a value is larger than 65536 bytes"},
		"white space": {"", " ", "a value is larger than 65536 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			piece := []byte(strings.Repeat(tt.text, 1+(64<<10)/len(tt.text)))
			server := serve(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, tt.head)
				for r.Context().Err() == nil {
					if _, err := w.Write(piece); err != nil {
						return
					}
				}
			})
			all := make([]*corev1.Node, nodes)
			for i := range all {
				all[i] = node(fmt.Sprintf("n%d", i))
			}
			s := newSource(t, Config{Address: server.URL}, all...)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := s.Fetch(t.Context(), source.Request{Windows: windows})
			runtime.ReadMemStats(&after)
			wantError(t, err, tt.want, "GET "+server.URL+"/watcher: ")
			// What is allocated bounds what is in use. Lists grow by doubling.
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 8*budget {
				t.Errorf("%d MiB allocated, want at most 8 times the budget of %d MiB", allocated>>20, budget>>20)
			}
		})
	}
}

func TestFetch_TextOfServer(t *testing.T) {
	evil := token + `\u001b[2J\u202e` + strings.Repeat("x", 10_000) // in JSON
	host := func(name string) string {
		return `"` + name + `":{"metrics":[{"type":"CPU","operator":"AVG","value":1}]}`
	}
	var hosts []string
	for i := range 6 {
		hosts = append(hosts, host(fmt.Sprint(i)+evil))
	}
	documentOf := func(hosts ...string) string {
		return `{"timestamp":1,"data":{"NodeMetricsMap":{` + strings.Join(hosts, ",") + `}}}`
	}
	for name, body := range map[string]string{
		"hosts":             documentOf(append(hosts, host("n1"))...),
		"no host of a node": documentOf(hosts...),
		"a value":           `{"timestamp":"` + evil + `"}`,
		"a number":          `{"timestamp":1,"data":{"NodeMetricsMap":{"x":{"metrics":[{"value":"` + evil + `"}]}}}}`,
		"a page":            "<html>" + evil,
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
			var lines []string
			sink := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 4})
			s := newSource(t, Config{Address: server.URL, Config: httpclient.Config{BearerToken: token}}, node("n1"))
			for range 2 {
				if _, err := s.Fetch(klog.NewContext(t.Context(), sink), source.Request{Windows: windows}); err != nil {
					lines = append(lines, err.Error())
				}
			}
			if len(lines) == 0 {
				t.Error("nothing is said")
			}
			for _, line := range lines {
				if len(line) > 4<<10 || strings.Contains(line, token) || strings.ContainsAny(line, "\x1b\u202e") {
					t.Errorf("a line of %d bytes: %.5000q", len(line), line)
				}
			}
		})
	}
}

package signalfx

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/hosted"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
)

// endless responds with head and then text until the client has gone.
func endless(head, text string) http.HandlerFunc {
	piece := []byte(strings.Repeat(text, 1+(64<<10)/len(text)))
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, head)
		for r.Context().Err() == nil {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}
}

func TestFetch_HostileServer(t *testing.T) {
	const (
		count = 200
		// budget is the accepted size of ten minutes of cpu, and of memory.
		budget     = 2 * (1<<20 + count*(4<<10+13*40))
		tooMany    = "the bound for 200 nodes"
		tooLong    = "a value is larger than 65536 bytes"
		valuesPath = "/v1/timeserieswindow"
		hostsPath  = "/v2/metrictimeseries"
	)
	for name, tt := range map[string]struct {
		path    string
		respond http.HandlerFunc
		want    string
	}{
		"series": {valuesPath, endless(`{"data":{`, `"A":[],`), tooMany},
		"long series": {valuesPath, endless(`{"data":{`, `"A":[`+strings.Repeat("[1600000000000,1],",
			1000)+`[1600000000000,1]],`), tooMany},
		"names of series":  {valuesPath, endless(`{"data":{`, `"`+strings.Repeat("A", 10_000)+`":[],`), tooMany},
		"a name":           {valuesPath, endless(`{"data":{"`, "x"), tooLong},
		"points":           {valuesPath, endless(`{"data":{"A":[`, "[1600000000000,1],"), tooLong},
		"deep nesting":     {valuesPath, endless(`{"data":{"A":`, "["), "exceeded max depth"},
		"errors":           {valuesPath, endless(`{"errors":[`, "1,"), tooMany},
		"unknown keys":     {valuesPath, endless(`{`, `"a":1,`), tooMany},
		"white space":      {valuesPath, endless(`{`, " "), tooLong},
		"what is not JSON": {valuesPath, endless("<html>", "x"), "invalid character"},
		"an error": {valuesPath, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(500)
			endless("no ", "x")(w,
				r)
		}, "status 500"},
		"hosts": {hostsPath, endless(`{"results":[`, `{},`), tooMany},
		"long hosts": {hostsPath, endless(`{"results":[`, `{"id":"A","dimensions":{"host":"`+strings.Repeat("x", 10_000)+`"}},`),
			tooMany},
		"dimensions":          {hostsPath, endless(`{"results":[{"dimensions":{`, `"a":"",`), tooLong},
		"a host":              {hostsPath, endless(`{"results":[{"dimensions":{"host":"`, "x"), tooLong},
		"deep nesting of one": {hostsPath, endless(`{"results":[{"x":`, "["), "exceeded max depth"},
	} {
		t.Run(name, func(t *testing.T) {
			server := newStub(t, cpu("A", "n1", 10), memory("B", "n1", 10))
			server.respond[tt.path] = tt.respond
			s := newSource(t, hosted.Config{Address: server.URL}, clocktesting.NewFakePassiveClock(now), nodes(count)...)
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			_, err := fetch(t, s, 5*time.Minute)
			runtime.ReadMemStats(&after)
			wantError(t, err, tt.want)
			if len(err.Error()) > 1536 {
				t.Errorf("the error has %d bytes: %s", len(err.Error()), err)
			}
			// All allocations bound the memory in use. The server's share is small.
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 3*budget {
				t.Errorf("%d MiB allocated, want at most three times the budget of %d MiB", allocated>>20, budget>>20)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > 8<<20 {
				t.Errorf("%d MiB kept", kept>>20)
			}
			runtime.KeepAlive(s)
		})
	}
}

func TestFetch_SlowServer(t *testing.T) {
	server := newStub(t)
	server.respond["/v1/timeserieswindow"] = func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"data":{`)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	s := newSource(t, hosted.Config{Address: server.URL, Config: httpclient.Config{Timeout: 200 * time.Millisecond}},
		clocktesting.NewFakePassiveClock(now), node("n1"))
	_, err := fetch(t, s, 5*time.Minute)
	wantError(t, err, "no complete response within the timeout of 200ms")
}

func TestFetch_TextOfServer(t *testing.T) {
	evil := token + "\x1b[2J\u202e" + strings.Repeat("x", 10_000)
	escaped := token + `\u001b[2J\u202e` + strings.Repeat("x", 10_000) // in JSON
	values := fmt.Sprintf(`{"data":{"A":[[%d000,10]],"B%s":[[%d000,10]]},"errors":["%s",{"message":"%s"}]}`, minute, escaped, minute,
		escaped, escaped)
	for name, respond := range map[string]map[string]http.HandlerFunc{
		"errors and names": {"/v1/timeserieswindow": status(200, "", "", values)},
		"hosts":            {"/v2/metrictimeseries": status(200, "", "", `{"results":[{"id":"A","dimensions":{"host":"`+escaped+`"}}]}`)},
		"metrics": {
			"/v1/timeserieswindow": status(200, "", "", `{"data":{}}`),
			"/v2/metric":           status(200, "", "", `{"results":[{"name":"`+escaped+`"},{"name":"`+escaped+`"}]}`),
		},
		"an error":        {"/v1/timeserieswindow": status(400, "", "", evil)},
		"a failed lookup": {"/v1/timeserieswindow": status(200, "", "", `{"data":{}}`), "/v2/metric": status(403, "", "", evil)},
		"no JSON":         {"/v1/timeserieswindow": status(200, "", "", "<html>"+evil)},
		"a number":        {"/v1/timeserieswindow": status(200, "", "", `{"data":{"A":[["`+escaped+`",1]]}}`)},
		"a rate limit":    {"/v1/timeserieswindow": status(429, "Retry-After", strings.Repeat("9", 1000)+token, evil)},
	} {
		t.Run(name, func(t *testing.T) {
			server := newStub(t, cpu("A", "n1", 10))
			server.respond = respond
			s := newSource(t, hosted.Config{Address: server.URL}, clocktesting.NewFakePassiveClock(now), node("n1"))
			var lines []string
			sink := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 4})
			for range 2 {
				if _, err := s.Fetch(
					klog.NewContext(t.Context(), sink), source.Request{Windows: []time.Duration{5 * time.Minute}},
				); err != nil {
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

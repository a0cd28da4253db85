package datadog

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
		_, _ = io.Copy(io.Discard, r.Body) // the server notices the end of the connection only after the body
		_, _ = io.WriteString(w, head)
		for r.Context().Err() == nil {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}
}

const attributesHead = `{"data":{"attributes":{`

func TestFetch_HostileServer(t *testing.T) {
	const (
		count = 200
		// budget is the accepted size of ten minutes of cpu and memory.
		budget  = 2 * (1<<20 + count*(4<<10+13*40))
		tooMany = "the bound for 200 nodes"
		tooLong = "a value is larger than 65536 bytes"
	)
	thirteen := strings.TrimSuffix(strings.Repeat("1,", 13), ",")
	for name, tt := range map[string]struct {
		respond http.HandlerFunc
		want    string
	}{
		"series": {endless(attributesHead+`"series":[`, `{},`), tooMany},
		"long series": {endless(attributesHead+`"series":[`, `{"group_tags":["host:`+strings.Repeat("x", 10_000)+`"]},`),
			tooMany},
		"tags":                 {endless(attributesHead+`"series":[{"group_tags":[`, `"",`), tooLong},
		"rows":                 {endless(attributesHead+`"values":[`, `[],`), tooMany},
		"rows of values":       {endless(attributesHead+`"values":[`, `[`+thirteen+`],`), tooMany},
		"values of a row":      {endless(attributesHead+`"values":[[`, `1,`), tooLong},
		"a long row":           {endless(attributesHead+`"values":[`, `[`+thirteen+`,1],`), "14 points, more than the requested 13"},
		"times":                {endless(attributesHead+`"times":[`, `1,`), tooLong},
		"many times":           {endless(attributesHead, `"times":[`+thirteen+`],`), tooMany},
		"a long list of times": {endless(attributesHead, `"times":[`+thirteen+`,1],`), "14 points, more than the requested 13"},
		"deep nesting":         {endless(attributesHead+`"values":[`, "["), "exceeded max depth"},
		"errors":               {endless(`{"errors":"`, "x"), tooLong},
		"unknown keys":         {endless(`{`, `"a":1,`), tooMany},
		"white space":          {endless(`{`, " "), tooLong},
		"what is not JSON":     {endless("<html>", "x"), "invalid character"},
		"an error": {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500); endless("no ", "x")(w, r) },
			"status 500"},
	} {
		t.Run(name, func(t *testing.T) {
			server := newStub(t)
			server.respond["/api/v2/query/timeseries"] = tt.respond
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
	server.respond["/api/v2/query/timeseries"] = func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, attributesHead)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	s := newSource(
		t, hosted.Config{Address: server.URL, Config: httpclient.Config{BearerToken: apiKey, Timeout: 200 * time.Millisecond}},
		clocktesting.NewFakePassiveClock(now), node("n1"),
	)
	_, err := fetch(t, s, 5*time.Minute)
	wantError(t, err, "no complete response within the timeout of 200ms")
}

func TestFetch_TextOfServer(t *testing.T) {
	evil := apiKey + applicationKey + "\x1b[2J\u202e" + strings.Repeat("x", 10_000)
	escaped := apiKey + applicationKey + `\u001b[2J\u202e` + strings.Repeat("x", 10_000) // in JSON
	const path = "/api/v2/query/timeseries"
	series := func(host string) string { return `{"group_tags":["host:` + host + `"],"query_index":0}` }
	for name, respond := range map[string]map[string]http.HandlerFunc{
		"errors and names": {path: status(200, "", "",
			fmt.Sprintf(`%s"series":[%s,%s],"times":[%d000],"values":[[1],[1]]}},"errors":"%s"}`,
				attributesHead, series("n1"), series(escaped), minute, escaped))},
		"hosts": {path: status(200, "", "", attributesHead+`"series":[`+series(escaped)+`],"values":[[]]}}}`)},
		"metrics": {
			path:             status(200, "", "", `{"data":{}}`),
			"/api/v1/search": status(200, "", "", `{"results":{"metrics":["`+escaped+`","`+escaped+`",null]}}`),
		},
		"an error":        {path: status(400, "", "", evil)},
		"a failed lookup": {path: status(200, "", "", `{"data":{}}`), "/api/v1/search": status(403, "", "", evil)},
		"no JSON":         {path: status(200, "", "", "<html>"+evil)},
		"a number":        {path: status(200, "", "", attributesHead+`"values":[["`+escaped+`"]]}}}`)},
		"a rate limit":    {path: status(429, "X-RateLimit-Reset", strings.Repeat("9", 1000)+apiKey, evil)},
	} {
		t.Run(name, func(t *testing.T) {
			server := newStub(t)
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
				if len(line) > 4<<10 || strings.Contains(line, apiKey) || strings.Contains(line, applicationKey) ||
					strings.ContainsAny(line, "\x1b\u202e") {
					t.Errorf("a line of %d bytes: %.5000q", len(line), line)
				}
			}
		})
	}
}

package datadog

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/hosted"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/test/sourcetest"
)

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
		"series": {sourcetest.Endless(attributesHead+`"series":[`, `{},`), tooMany},
		"long series": {sourcetest.Endless(attributesHead+`"series":[`, `{"group_tags":["host:`+strings.Repeat("x", 10_000)+`"]},`),
			tooMany},
		"tags":                 {sourcetest.Endless(attributesHead+`"series":[{"group_tags":[`, `"",`), tooLong},
		"rows":                 {sourcetest.Endless(attributesHead+`"values":[`, `[],`), tooMany},
		"rows of values":       {sourcetest.Endless(attributesHead+`"values":[`, `[`+thirteen+`],`), tooMany},
		"values of a row":      {sourcetest.Endless(attributesHead+`"values":[[`, `1,`), tooLong},
		"a long row":           {sourcetest.Endless(attributesHead+`"values":[`, `[`+thirteen+`,1],`), "14 points, more than the requested 13"},
		"times":                {sourcetest.Endless(attributesHead+`"times":[`, `1,`), tooLong},
		"many times":           {sourcetest.Endless(attributesHead, `"times":[`+thirteen+`],`), tooMany},
		"a long list of times": {sourcetest.Endless(attributesHead, `"times":[`+thirteen+`,1],`), "14 points, more than the requested 13"},
		"deep nesting":         {sourcetest.Endless(attributesHead+`"values":[`, "["), "exceeded max depth"},
		"errors":               {sourcetest.Endless(`{"errors":"`, "x"), tooLong},
		"unknown keys":         {sourcetest.Endless(`{`, `"a":1,`), tooMany},
		"white space":          {sourcetest.Endless(`{`, " "), tooLong},
		"what is not JSON":     {sourcetest.Endless("<html>", "x"), "invalid character"},
		"an error": {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500); sourcetest.Endless("no ", "x")(w, r) },
			"status 500"},
	} {
		t.Run(name, func(t *testing.T) {
			server := newStub(t)
			server.respond["/api/v2/query/timeseries"] = tt.respond
			s := newSource(t, hosted.Config{Address: server.URL}, clocktesting.NewFakePassiveClock(now), nodes(count)...)
			wantError(t, sourcetest.FetchHostile(t, s, 5*time.Minute, 3*budget), tt.want)
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
	_, err := sourcetest.Fetch(t, s, 5*time.Minute)
	wantError(t, err, "no complete response within the timeout of 200ms")
}

func TestFetch_TextOfServer(t *testing.T) {
	evil := apiKey + applicationKey + "\x1b[2J\u202e" + strings.Repeat("x", 10_000)
	escaped := apiKey + applicationKey + `\u001b[2J\u202e` + strings.Repeat("x", 10_000) // in JSON
	const path = "/api/v2/query/timeseries"
	series := func(host string) string { return `{"group_tags":["host:` + host + `"],"query_index":0}` }
	for name, respond := range map[string]map[string]http.HandlerFunc{
		"errors and names": {path: sourcetest.Respond(200, "", "",
			fmt.Sprintf(`%s"series":[%s,%s],"times":[%d000],"values":[[1],[1]]}},"errors":"%s"}`,
				attributesHead, series("n1"), series(escaped), minute, escaped))},
		"hosts": {path: sourcetest.Respond(200, "", "", attributesHead+`"series":[`+series(escaped)+`],"values":[[]]}}}`)},
		"metrics": {
			path:             sourcetest.Respond(200, "", "", `{"data":{}}`),
			"/api/v1/search": sourcetest.Respond(200, "", "", `{"results":{"metrics":["`+escaped+`","`+escaped+`",null]}}`),
		},
		"an error":        {path: sourcetest.Respond(400, "", "", evil)},
		"a failed lookup": {path: sourcetest.Respond(200, "", "", `{"data":{}}`), "/api/v1/search": sourcetest.Respond(403, "", "", evil)},
		"no JSON":         {path: sourcetest.Respond(200, "", "", "<html>"+evil)},
		"a number":        {path: sourcetest.Respond(200, "", "", attributesHead+`"values":[["`+escaped+`"]]}}}`)},
		"a rate limit":    {path: sourcetest.Respond(429, "X-RateLimit-Reset", strings.Repeat("9", 1000)+apiKey, evil)},
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

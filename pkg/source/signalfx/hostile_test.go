package signalfx

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
		"series": {valuesPath, sourcetest.Endless(`{"data":{`, `"A":[],`), tooMany},
		"long series": {valuesPath, sourcetest.Endless(`{"data":{`, `"A":[`+strings.Repeat("[1600000000000,1],",
			1000)+`[1600000000000,1]],`), tooMany},
		"names of series":  {valuesPath, sourcetest.Endless(`{"data":{`, `"`+strings.Repeat("A", 10_000)+`":[],`), tooMany},
		"a name":           {valuesPath, sourcetest.Endless(`{"data":{"`, "x"), tooLong},
		"points":           {valuesPath, sourcetest.Endless(`{"data":{"A":[`, "[1600000000000,1],"), tooLong},
		"deep nesting":     {valuesPath, sourcetest.Endless(`{"data":{"A":`, "["), "exceeded max depth"},
		"errors":           {valuesPath, sourcetest.Endless(`{"errors":[`, "1,"), tooMany},
		"unknown keys":     {valuesPath, sourcetest.Endless(`{`, `"a":1,`), tooMany},
		"white space":      {valuesPath, sourcetest.Endless(`{`, " "), tooLong},
		"what is not JSON": {valuesPath, sourcetest.Endless("<html>", "x"), "invalid character"},
		"an error": {valuesPath, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(500)
			sourcetest.Endless("no ", "x")(w,
				r)
		}, "status 500"},
		"hosts": {hostsPath, sourcetest.Endless(`{"results":[`, `{},`), tooMany},
		"long hosts": {hostsPath, sourcetest.Endless(`{"results":[`, `{"id":"A","dimensions":{"host":"`+strings.Repeat("x", 10_000)+`"}},`),
			tooMany},
		"dimensions":          {hostsPath, sourcetest.Endless(`{"results":[{"dimensions":{`, `"a":"",`), tooLong},
		"a host":              {hostsPath, sourcetest.Endless(`{"results":[{"dimensions":{"host":"`, "x"), tooLong},
		"deep nesting of one": {hostsPath, sourcetest.Endless(`{"results":[{"x":`, "["), "exceeded max depth"},
	} {
		t.Run(name, func(t *testing.T) {
			server := newStub(t, cpu("A", "n1", 10), memory("B", "n1", 10))
			server.respond[tt.path] = tt.respond
			s := newSource(t, hosted.Config{Address: server.URL}, clocktesting.NewFakePassiveClock(now), nodes(count)...)
			wantError(t, sourcetest.FetchHostile(t, s, 5*time.Minute, 3*budget), tt.want)
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
	_, err := sourcetest.Fetch(t, s, 5*time.Minute)
	wantError(t, err, "no complete response within the timeout of 200ms")
}

func TestFetch_TextOfServer(t *testing.T) {
	evil := token + "\x1b[2J\u202e" + strings.Repeat("x", 10_000)
	escaped := token + `\u001b[2J\u202e` + strings.Repeat("x", 10_000) // in JSON
	values := fmt.Sprintf(`{"data":{"A":[[%d000,10]],"B%s":[[%d000,10]]},"errors":["%s",{"message":"%s"}]}`, minute, escaped, minute,
		escaped, escaped)
	for name, respond := range map[string]map[string]http.HandlerFunc{
		"errors and names": {"/v1/timeserieswindow": sourcetest.Respond(200, "", "", values)},
		"hosts":            {"/v2/metrictimeseries": sourcetest.Respond(200, "", "", `{"results":[{"id":"A","dimensions":{"host":"`+escaped+`"}}]}`)},
		"metrics": {
			"/v1/timeserieswindow": sourcetest.Respond(200, "", "", `{"data":{}}`),
			"/v2/metric":           sourcetest.Respond(200, "", "", `{"results":[{"name":"`+escaped+`"},{"name":"`+escaped+`"}]}`),
		},
		"an error":        {"/v1/timeserieswindow": sourcetest.Respond(400, "", "", evil)},
		"a failed lookup": {"/v1/timeserieswindow": sourcetest.Respond(200, "", "", `{"data":{}}`), "/v2/metric": sourcetest.Respond(403, "", "", evil)},
		"no JSON":         {"/v1/timeserieswindow": sourcetest.Respond(200, "", "", "<html>"+evil)},
		"a number":        {"/v1/timeserieswindow": sourcetest.Respond(200, "", "", `{"data":{"A":[["`+escaped+`",1]]}}`)},
		"a rate limit":    {"/v1/timeserieswindow": sourcetest.Respond(429, "Retry-After", strings.Repeat("9", 1000)+token, evil)},
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

package prometheus

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/sourcetest"
)

const (
	vectorHead = `{"status":"success","data":{"resultType":"vector","result":[`
	oneSeries  = `{"metric":{"instance":"x"},"value":[1700000000,"1"]},`
)

type hostileResponse struct {
	respond func(http.ResponseWriter, *http.Request)
	// want is a part of the error.
	want string
}

// hostileResponses returns, by name, responses that take much memory or time of a client that trusts them.
func hostileResponses(t *testing.T) map[string]hostileResponse {
	t.Helper()
	const tooMany = "the bound for 200 nodes"
	series := func(name string) string {
		return `{"metric":{"instance":"` + name + `","pad":"` + strings.Repeat("x", 1000) + `"},"value":[1700000000,"1"]},`
	}
	return map[string]hostileResponse{
		"series":            {sourcetest.Endless(vectorHead, oneSeries), tooMany},
		"long series":       {sourcetest.Endless(vectorHead, series("x")), tooMany},
		"packed series":     {packed(t, vectorHead+strings.Repeat(series("x"), 16<<10)), tooMany},
		"series, type last": {sourcetest.Endless(`{"status":"success","data":{"result":[`, oneSeries), tooMany},
		"a label":           {sourcetest.Endless(vectorHead+`{"metric":{"instance":"`, "x"), "a value is larger than 65536 bytes"},
		"labels":            {sourcetest.Endless(vectorHead+`{"metric":{`, `"a":"",`), "a value is larger than 65536 bytes"},
		"deep nesting":      {sourcetest.Endless(vectorHead+`{"metric":`, `[`), "exceeded max depth"},
		"a status":          {sourcetest.Endless(`{"status":"`, "x"), "a value is larger than 65536 bytes"},
		"an unknown value":  {sourcetest.Endless(`{"stats":[`, "1,"), "a value is larger than 65536 bytes"},
		"unknown keys":      {sourcetest.Endless(`{`, `"a":1,`), tooMany},
		"warnings":          {sourcetest.Endless(`{"warnings":[`, `"w",`), tooMany},
		"white space":       {sourcetest.Endless(`{`, " "), "a value is larger than 65536 bytes"},
		"what is not JSON":  {sourcetest.Endless("<html>", "x"), "not a response of the Prometheus API"},
		"an error":          {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500); sourcetest.Endless("no ", "x")(w, r) }, "status 500"},
		"an error of the API": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(422)
			sourcetest.Endless(`{"status":"error","errorType":"execution","error":"`, "x")(w, r)
		}, "query refused (execution)"},
	}
}

func packed(t *testing.T, text string) func(http.ResponseWriter, *http.Request) {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	check.Value(io.WriteString(w, text))(t)
	check.OK(t, w.Close())
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			w.WriteHeader(http.StatusNotAcceptable)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		if _, err := w.Write(b.Bytes()); err != nil {
			t.Log(err)
		}
	}
}

func manyNodes(count int) []*corev1.Node {
	nodes := make([]*corev1.Node, count)
	for i := range nodes {
		nodes[i] = newNode(fmt.Sprintf("n%d", i), fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255))
	}
	return nodes
}

func TestFetch_HostileServer(t *testing.T) {
	const nodes = 200
	const queries = 5 // one for the newest samples, four for the window
	const budget = queries * (1<<20 + nodes*4<<10)
	for name, tt := range hostileResponses(t) {
		t.Run(name, func(t *testing.T) {
			srv := newServer(t, rule{"", tt.respond})
			srv.newest = tt.respond
			s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.NodeExporter}, manyNodes(nodes)...)
			check.Error(t, sourcetest.FetchHostile(t, s, window, 2*budget), tt.want)
		})
	}
}

func TestFetch_UnmatchedAreBounded(t *testing.T) {
	var elements []element
	for i := range source.MaxUnmatched + 100 {
		elements = append(elements, element{fmt.Sprintf(`"node":"%d%s"`, i, strings.Repeat("x", 100)), "1"})
	}
	srv := newServer(t, rule{"", vector(append(elements, at("n1", "0.5"))...)})
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.NodeExporter}, manyNodes(1000)...)
	batch := check.Value(s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window}}))(t)
	check.Equal(t, "samples and unmatched", [2]int{1, source.MaxUnmatched}, [2]int{len(batch.Samples), batch.UnmatchedCount})
}

// TestFetch_TextOfServer looks at all that a server can write into errors, logs and the diagnosis.
func TestFetch_TextOfServer(t *testing.T) {
	const token = "sEcr3t.tok-en.12345"
	evil := token + `\u001b[2J\u202e\u0000\"` + strings.Repeat(`\\\"`, 1000) // in JSON
	ofNode := func(labels string) string { return `{"metric":{` + labels + `},"value":[1700000000,"1"]}` }
	good := ofNode(`"node":"n1","instance":"` + evil + `"`)
	responses := map[string]string{
		"errorType":  `{"status":"error","errorType":"` + evil + `","error":"e"}`,
		"error":      `{"status":"error","errorType":"e","error":"` + evil + `"}`,
		"status":     `{"status":"` + evil + `"}`,
		"resultType": `{"status":"success","data":{"resultType":"` + evil + `","result":[]}}`,
		"a value":    vectorHead + `{"metric":{},"value":[1700000000,"` + evil + `"]}]}}`,
		"a time":     vectorHead + `{"metric":{},"value":["` + evil + `","1"]}]}}`,
		"a key":      `{"` + evil + `":}`,
		"labels": vectorHead + ofNode(`"node":"`+evil+`"`) + `,` + ofNode(
			`"node":"1`+evil+`"`,
		) + `,` + ofNode(`"instance":"2`+evil+`"`) + `,` + ofNode(
			`"node":"3`+evil+`"`,
		) + `,` + ofNode(`"node":"4`+evil+`"`) + `,` + ofNode(`"node":"5`+evil+`"`) + `]}}`,
		"warnings": vectorHead + good + `]},"status":"success","warnings":["1` + evil + `","2` + evil + `","3` + evil + `","4` + evil +
			`","5` + evil + `","6` + evil + `"]}`,
		"good series": vectorHead + good + `,` + ofNode(`"node":"`+evil+`"`) + `]}}`,
		"conflict": vectorHead + good + `,` + ofNode(`"node":"n1","instance":"n1","job":"`+evil+`"`) + `,` +
			ofNode(`"node":"n1","instance":"n1","namespace":"`+evil+`"`) + `]}}`,
		"a page": "<html>" + evil,
	}
	for name, text := range responses {
		for _, status := range []int{200, 422, 500} {
			t.Run(fmt.Sprintf("%s with status %d", name, status), func(t *testing.T) {
				srv := newServer(t, rule{"", func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(status)
					_, _ = io.WriteString(w, text)
				}})
				cfg := Config{Address: srv.URL, Config: httpclient.Config{BearerToken: token}}
				s := newTestSource(t, cfg, append(manyNodes(50), newNode("n1", "10.9.9.9"))...)
				var lines []string
				var repeated int
				sink := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 4})
				ctx := klog.NewContext(t.Context(), sink)
				for i := range 3 {
					before := len(lines)
					if _, err := s.Fetch(
						ctx, source.Request{Windows: []time.Duration{window}, Metrics: []string{strings.Repeat("m", 10_000)}},
					); err != nil {
						// As the watcher logs it.
						sink.Error(err, "Load cannot be read")
						lines = lines[:len(lines)-min(i, 1)]
					}
					if i > 0 {
						repeated += len(lines) - before
					}
				}
				if repeated > 0 {
					t.Errorf("%d of %d lines are logged again at the next refreshes", repeated, len(lines))
				}
				lines = append(lines, fmt.Sprint(s.Diagnosis().UnmatchedSeries, s.Diagnosis().Undetected))
				for _, q := range s.Diagnosis().Queries {
					lines = append(lines, fmt.Sprint(q.Query, q.Err, q.Warnings))
				}
				for _, line := range lines {
					if len(line) > 4<<10 {
						t.Errorf("a line has %d bytes: %s", len(line), line)
					}
					if strings.Contains(line, token) || strings.ContainsAny(line, "\x1b\u202e\x00") {
						t.Errorf("a line shows the token or control characters: %s", line)
					}
				}
			})
		}
	}
}

package prometheus

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/response"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func TestFetch_BadResponses(t *testing.T) {
	const vectorOf = `{"status":"success","data":{"resultType":"vector","result":%s}}`
	for _, tt := range []struct {
		name    string
		respond func(http.ResponseWriter, *http.Request)
		want    []string
	}{
		{"a server error", status(500, "panic"), []string{"500 Internal Server Error", "panic"}},
		{"a server error in the format of the API", status(503, `{"status":"error","errorType":"timeout","error":"query timed out in `+
			`expression evaluation"}`), []string{"503", "timeout", "query timed out"}},
		{"a refused query", status(400, `{"status":"error","errorType":"bad_data","error":"parse error"}`), []string{"400", "bad_data", "parse error"}},
		{"an error with status 200", body(`{"status":"error","errorType":"execution","error":"too many samples"}`), []string{"execution", "too many samples"}},
		{"not authenticated", status(401, ""), []string{"401", "token or tokenFile"}},
		{"not permitted", status(403, "Forbidden (user=system:anonymous)"), []string{"403", "token or tokenFile", "system:anonymous"}},
		{"a wrong path of VictoriaMetrics", status(400, `unsupported path requested: "/api/v1/query"`), []string{"400", "path prefix"}},
		{"a wrong path", status(404, "404 page not found"), []string{"404", "path prefix"}},
		{"a login page", body("<html>Log in</html>"), []string{"not a response of the Prometheus API", "<html>Log in</html>"}},
		{"nothing", body(""), []string{"not a response of the Prometheus API"}},
		{"a cut response", body(`{"status":"success","data":{"resultType":"vector","result":[{"metric":`), []string{"not a response"}},
		{"no data", body(`{"status":"success"}`), []string{"no result"}},
		{"another object", body(`{"apiVersion":"v1","kind":"Status"}`), []string{"status is"}},
		{"a scalar", body(`{"status":"success","data":{"resultType":"scalar","result":[1700000000,"1"]}}`), []string{`"scalar"`, "instant vector"}},
		{"a matrix", body(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1700000000,"1"]]}]}}`), []string{`"matrix"`}},
		{"a scalar, type last", body(`{"data":{"result":[1700000000,"1"],"resultType":"scalar"},"status":"success"}`), []string{"an instant vector is needed"}},
		{"a matrix, type last", body(`{"data":{"result":[],"resultType":"matrix"},"status":"success"}`), []string{`"matrix"`}},
		{"a histogram", body(fmt.Sprintf(vectorOf, `[{"metric":{},"histogram":[1700000000,{"count":"1","sum":"1"}]}]`)), []string{"native histograms"}},
		{"a value that is none", body(fmt.Sprintf(vectorOf, `[{"metric":{},"value":[1700000000,"high"]}]`)), []string{"no value"}},
		{"a series without a value", body(fmt.Sprintf(vectorOf, `[{"metric":{}}]`)), []string{"without a value"}},
		{"an object for a list", body(fmt.Sprintf(vectorOf, `{}`)), []string{"not a response"}},
		{"more behind the end", body(vectorText(at("w1", "0.5")) + "{}"), []string{"more follows"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := newServer(t, rule{"", tt.respond})
			s := newTestSource(
				t,
				Config{Address: srv.URL, Dialect: promql.NodeExporter, Config: httpclient.Config{BearerToken: "s3cret"}},
				twoNodes()...)
			_, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window}})
			check.Error(t, err, append(tt.want, srv.URL+"/api/v1/query", "mean of cpu over 5m")...)
			check.Lacks(t, err.Error(), "s3cret")
		})
	}
}

// TestIsTooMuch has the words of each server, as its code writes them.
func TestIsTooMuch(t *testing.T) {
	for _, tt := range []struct {
		server, kind, message string
		want                  bool
	}{
		{"Prometheus", "execution", "query processing would load too many samples into memory in query execution", true},
		{"Thanos", "execution", "exceeded series limit: rpc error: code = Code(422) desc = limit 3 violated (got 4)", true},
		{"Mimir", "execution", "the query exceeded the maximum number of series (limit: 1 series) (err-mimir-max-series-per-query)", true},
		{"Mimir", "execution", "the query exceeded the aggregated chunks size limit (limit: 9 bytes)", true},
		{"Cortex", "execution", "the query hit the max number of chunks limit (limit: 2 chunks)", true},
		{"VictoriaMetrics", "422", "the number of matching timeseries exceeds 30000; either narrow down the search", true},
		{"VictoriaMetrics", "422", "not enough memory for processing 9 data points across 3 time series", true},
		// The reason follows the query, and is beyond an excerpt.
		{"VictoriaMetrics", "422", "error when executing query=" + strings.Repeat("rate(a[5m]) or ", 100) + ": cannot select more than -search.maxSamplesPerQuery=9 samples", true},
		{"VictoriaMetrics", "503", "couldn't start executing the request: -search.maxConcurrentRequests=8 are executed", false},
		{"Prometheus", "timeout", "query timed out in expression evaluation", false},
		{"Prometheus", "bad_data", "parse error", false},
	} {
		for _, code := range []int{http.StatusOK, http.StatusUnprocessableEntity} {
			answer := check.Value(json.Marshal(map[string]string{"status": "error", "errorType": tt.kind, "error": tt.message}))(t)
			client, err := response.NewClient(newServer(t, rule{"", status(code, string(answer))}).URL, response.InstantQuery, httpclient.Config{})
			check.OK(t, err)
			_, err = client.Query(t.Context(), "up", response.NodeBounds(1), func(*response.Series[map[string]string]) {})
			if err == nil || response.IsTooMuch(err) != tt.want {
				t.Errorf("%s, status %d: too much is %t of %v, want %t", tt.server, code, !tt.want, err, tt.want)
			}
		}
	}
}

func TestFetch_ServerDown(t *testing.T) {
	srv := newServer(t)
	s := newTestSource(t, Config{Address: srv.URL, Config: httpclient.Config{BearerToken: "s3cret"}}, twoNodes()...)
	srv.Close()
	_, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window}})
	check.Error(t, err, srv.URL, "connection refused", "mean of cpu")
	check.Lacks(t, err.Error(), "s3cret")
}

// paddedTo returns a response of so many bytes with the load of w1.
func paddedTo(bytes int) string {
	text := strings.TrimPrefix(vectorText(at("w1", "0.5")), "{")
	padding := "{"
	for left := bytes - len("{") - len(text); left > 0; left = bytes - len(padding) - len(text) {
		length := min(left, 60_000)
		if left > length {
			length = min(length, left-len(`"":"",`)) // leave room for another one
		}
		padding += `"` + strings.Repeat("x", length-len(`"":"",`)) + `":"",`
	}
	return padding + text
}

func TestFetch_ResponseTooLarge(t *testing.T) {
	const limit = 1<<20 + 2*4<<10 // 1 MiB, and 4 KiB for each of two nodes
	fits, larger := paddedTo(limit), paddedTo(limit+1)
	if len(fits) != limit || len(larger) != limit+1 {
		t.Fatalf("padded to %d and %d bytes", len(fits), len(larger))
	}
	// One query whose response is too large takes nothing from the others.
	srv := newServer(t, rule{"stddev_over_time", body(larger)}, rule{"", body(fits)})
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.NodeExporter}, twoNodes()...)
	if got := fetch(t, s); len(got) != 1 {
		t.Errorf("got %v", got)
	}
	srv.setRules(rule{"", body(larger)})
	_, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window}})
	check.Error(t, err, "the response is larger than 1056768 bytes, the bound for 2 nodes", "series of these nodes alone")
}

func TestClose(t *testing.T) {
	for _, withTLS := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %t", withTLS), func(t *testing.T) {
			closed := make(chan struct{}, 100)
			srv := httptest.NewUnstartedServer(http.HandlerFunc(vector(at("w1", "0.5"))))
			srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateClosed {
					closed <- struct{}{}
				}
			}
			cfg := Config{Dialect: promql.NodeExporter}
			if withTLS {
				srv.StartTLS()
				cfg.CAFile = writeCA(t, srv)
			} else {
				srv.Start()
			}
			t.Cleanup(srv.Close)
			cfg.Address = srv.URL
			s := newTestSource(t, cfg, twoNodes()...)
			fetch(t, s)
			check.OK(t, s.Close())
			select {
			case <-closed:
			case <-time.After(time.Minute):
				t.Error("the connection is still open")
			}
		})
	}
}

func TestFetch_AddressPath(t *testing.T) {
	for address, path := range map[string]string{
		"":                      "/api/v1/query",
		"/":                     "/api/v1/query",
		"/select/0/prometheus":  "/select/0/prometheus/api/v1/query",
		"/select/0/prometheus/": "/select/0/prometheus/api/v1/query",
	} {
		srv := newServer(t, rule{"", vector(at("w1", "0.5"))})
		fetch(t, newTestSource(t, Config{Address: srv.URL + address, Dialect: promql.NodeExporter}, twoNodes()...))
		for _, r := range srv.requests {
			check.Equal(t, fmt.Sprintf("address %q", address), [2]string{path, http.MethodGet}, [2]string{r.URL.Path, r.Method})
		}
	}
}

func TestFetch_LongQueryIsPosted(t *testing.T) {
	srv := newServer(t, rule{"", vector(at("w1", "0.5"))})
	long := "up # " + strings.Repeat("x", 8<<10)
	fetch(t, newTestSource(t, Config{Address: srv.URL, CPUQuery: long, MemoryQuery: long}, twoNodes()...))
	r := srv.requests[0]
	if r.Method != http.MethodPost || r.PostFormValue("query") == "" {
		t.Errorf("%s %s with a query of %d bytes", r.Method, r.URL, len(r.PostFormValue("query")))
	}
}

package prometheus

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
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
		{"a refused query", status(400, `{"status":"error","errorType":"bad_data","error":"parse error"}`), []string{"400", "bad_data",
			"parse error"}},
		{"an error with status 200", body(`{"status":"error","errorType":"execution","error":"too many samples"}`), []string{"execution",
			"too many samples"}},
		{"not authenticated", status(401, ""), []string{"401", "token or tokenFile"}},
		{"not permitted", status(403, "Forbidden (user=system:anonymous)"), []string{"403", "token or tokenFile", "system:anonymous"}},
		{"a wrong path", status(404, "404 page not found"), []string{"404", "path prefix"}},
		{"a login page", body("<html>Log in</html>"), []string{"not a response of the Prometheus API", "<html>Log in</html>"}},
		{"nothing", body(""), []string{"not a response of the Prometheus API"}},
		{"a cut response", body(`{"status":"success","data":{"resultType":"vector","result":[{"metric":`), []string{"not a response"}},
		{"no data", body(`{"status":"success"}`), []string{"no result"}},
		{"another object", body(`{"apiVersion":"v1","kind":"Status"}`), []string{"status is"}},
		{"a scalar", body(`{"status":"success","data":{"resultType":"scalar","result":[1700000000,"1"]}}`), []string{`"scalar"`,
			"instant vector"}},
		{"a matrix", body(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1700000000,"1"]]}]}}`),
			[]string{`"matrix"`}},
		{"a scalar, type last", body(`{"data":{"result":[1700000000,"1"],"resultType":"scalar"},"status":"success"}`),
			[]string{"an instant vector is needed"}},
		{"a matrix, type last", body(`{"data":{"result":[],"resultType":"matrix"},"status":"success"}`), []string{`"matrix"`}},
		{"a histogram", body(fmt.Sprintf(vectorOf, `[{"metric":{},"histogram":[1700000000,{"count":"1","sum":"1"}]}]`)),
			[]string{"native histograms"}},
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
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("error tells a secret: %s", err)
			}
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
		{"VictoriaMetrics", "422", "error when executing query=" + strings.Repeat("rate(a[5m]) or ", 100) +
			": cannot select more than -search.maxSamplesPerQuery=9 samples", true},
		{"VictoriaMetrics", "503", "couldn't start executing the request: -search.maxConcurrentRequests=8 are executed", false},
		{"Prometheus", "timeout", "query timed out in expression evaluation", false},
		{"Prometheus", "bad_data", "parse error", false},
	} {
		for _, code := range []int{http.StatusOK, http.StatusUnprocessableEntity} {
			answer, err := json.Marshal(map[string]string{"status": "error", "errorType": tt.kind, "error": tt.message})
			if err != nil {
				t.Fatal(err)
			}
			client, err := response.NewClient(newServer(t, rule{"", status(code, string(answer))}).URL, response.InstantQuery, httpclient.Config{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.Query(t.Context(), "up", time.Time{}, response.NodeBounds(1), func(*response.Series[map[string]string]) {})
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
	if strings.Contains(err.Error(), "s3cret") {
		t.Errorf("error tells a secret: %s", err)
	}
}

func TestFetch_ErrorsHideToken(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		format string
		want   []string
	}{
		{"a refusal", http.StatusForbidden, "headers: %v", []string{"403", "headers"}},
		{"a page", http.StatusOK, "headers: %v", []string{"not a response", "headers"}},
		{"an error of the API", http.StatusUnprocessableEntity, `{"status":"error","errorType":"execution","error":"headers: %v"}`,
			[]string{"422", "execution", "headers"}},
		{"an error of the API with status 200", http.StatusOK, `{"status":"error","errorType":"execution","error":"headers: %v"}`,
			[]string{"execution", "headers"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := newServer(t, rule{"", func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(tt.status)
				_, _ = fmt.Fprintf(w, tt.format, r.Header)
			}})
			s := newTestSource(
				t,
				Config{Address: srv.URL, Dialect: promql.NodeExporter, Config: httpclient.Config{BearerToken: "s3cret"}},
				twoNodes()...)
			_, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window}})
			check.Error(t, err, tt.want...)
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("error tells a secret: %s", err)
			}
		})
	}
}

func packed(t *testing.T, text string) func(http.ResponseWriter, *http.Request) {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
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

func TestFetch_Gzip(t *testing.T) {
	srv := newServer(t, rule{"", packed(t, vectorText(at("w1", "0.5")))})
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.NodeExporter}, twoNodes()...)
	if got := fetch(t, s); len(got) != 1 || got[0].Stats[load.CPU].Mean != 0.5 {
		t.Errorf("got %v", got)
	}
	srv.setRules(rule{"", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = fmt.Fprint(w, "not packed")
	}})
	if _, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window}}); !errors.Is(err, gzip.ErrHeader) {
		t.Errorf("error %v, want one of gzip", err)
	}
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
	for name, respond := range map[string]func(string) func(http.ResponseWriter, *http.Request){
		"plain":  body,
		"packed": func(text string) func(http.ResponseWriter, *http.Request) { return packed(t, text) },
	} {
		t.Run(name, func(t *testing.T) {
			srv := newServer(t, rule{"", respond(fits)})
			s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.NodeExporter}, twoNodes()...)
			if got := fetch(t, s); len(got) != 1 {
				t.Errorf("got %v", got)
			}
			// One query whose response is too large takes nothing from the others.
			srv.setRules(rule{"stddev_over_time", body(larger)}, rule{"", respond(fits)})
			if got := fetch(t, s); len(got) != 1 {
				t.Errorf("got %v", got)
			}
			srv.setRules(rule{"", respond(larger)})
			_, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window}})
			check.Error(t, err, "the response is larger than 1056768 bytes, the bound for 2 nodes", "series of these nodes alone")
		})
	}
}

// newTLSServer returns a server with a load of w1, which does not log failed handshakes.
func newTLSServer(t *testing.T) *httptest.Server {
	t.Helper()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(vector(at("w1", "0.5"))))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv
}

func TestTLS(t *testing.T) {
	srv := newTLSServer(t)
	ca := writeCA(t, srv)
	other := filepath.Join(t.TempDir(), "moved")
	for _, tt := range []struct {
		name string
		cfg  httpclient.Config
		fine bool
	}{
		{"no authority", httpclient.Config{}, false},
		{"no authority, with a token", httpclient.Config{BearerToken: "t"}, false},
		{"its authority", httpclient.Config{CAFile: ca}, true},
		{"its authority, with a token", httpclient.Config{CAFile: ca, BearerToken: "t"}, true},
		{"not verified", httpclient.Config{InsecureSkipVerify: true}, true},
		{"not verified, with a token", httpclient.Config{InsecureSkipVerify: true, BearerToken: "t"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.NodeExporter, Config: tt.cfg}, twoNodes()...)
			_, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window}})
			if tt.fine && err != nil {
				t.Errorf("Fetch: %v", err)
			}
			if !tt.fine {
				check.Error(t, err, "caFile", "insecureSkipVerify", srv.URL)
			}
		})
	}
	t.Run("a certificate for another host", func(t *testing.T) {
		s := newTestSource(
			t,
			Config{
				Address: strings.Replace(srv.URL, "127.0.0.1", "localhost", 1), Dialect: promql.NodeExporter,
				Config: httpclient.Config{CAFile: ca},
			},
			twoNodes()...)
		_, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window}})
		check.Error(t, err, "localhost", "caFile", "insecureSkipVerify")
	})
	t.Run("an authority that goes away", func(t *testing.T) {
		s := newTestSource(
			t,
			Config{Address: srv.URL, Dialect: promql.NodeExporter, Config: httpclient.Config{CAFile: ca}},
			twoNodes()...)
		if err := os.Rename(ca, other); err != nil {
			t.Fatal(err)
		}
		_, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window}})
		check.Error(t, err, "CA cert", ca)
	})
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
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			select {
			case <-closed:
			case <-time.After(time.Minute):
				t.Error("the connection is still open")
			}
		})
	}
}

func TestTokens(t *testing.T) {
	srv := newServer(t, rule{"", vector(at("w1", "0.5"))})
	last := func() string { return srv.requests[len(srv.requests)-1].Header.Get("Authorization") }

	fetch(t, newTestSource(t, Config{Address: srv.URL}, twoNodes()...))
	if got := last(); got != "" {
		t.Errorf("without a token: %q", got)
	}
	fetch(t, newTestSource(t, Config{Address: srv.URL, Config: httpclient.Config{BearerToken: "static\n"}}, twoNodes()...))
	if got := last(); got != "Bearer static" {
		t.Errorf("token: %q", got)
	}

	file := filepath.Join(t.TempDir(), "token")
	s := newTestSource(t, Config{Address: srv.URL, Config: httpclient.Config{BearerTokenFile: file}}, twoNodes()...)
	_, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window}})
	check.Error(t, err, file)
	for _, token := range []string{"first", "second"} {
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		fetch(t, s)
		if got := last(); got != "Bearer "+token {
			t.Errorf("token file with %q: %q", token, got)
		}
	}
}

func TestRedirects(t *testing.T) {
	var mu sync.Mutex // queries come at the same time
	var tokens []string
	target := newServer(t, rule{"", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		tokens = append(tokens, r.Header.Get("Authorization"))
		mu.Unlock()
		vector(at("w1", "0.5"))(w, r)
	}})
	redirect := func(to string) string {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, to+r.URL.Path+"?"+r.URL.RawQuery, http.StatusFound)
		}))
		t.Cleanup(srv.Close)
		return srv.URL
	}
	cfg := Config{Dialect: promql.NodeExporter, CPUQuery: "c", MemoryQuery: "m"}

	cfg.Address = redirect(target.URL)
	fetch(t, newTestSource(t, cfg, twoNodes()...))

	mu.Lock()
	tokens = nil
	mu.Unlock()
	cfg.BearerToken = "s3cret"
	_, err := newTestSource(t, cfg, twoNodes()...).Fetch(t.Context(), source.Request{Windows: []time.Duration{window}})
	check.Error(t, err, "redirected to "+target.URL, "address")
	mu.Lock()
	defer mu.Unlock()
	if len(tokens) > 0 {
		t.Errorf("another port got %q", tokens)
	}

	loop := httptest.NewServer(http.RedirectHandler("/", http.StatusFound))
	t.Cleanup(loop.Close)
	cfg.Address = loop.URL
	_, err = newTestSource(t, cfg, twoNodes()...).Fetch(t.Context(), source.Request{Windows: []time.Duration{window}})
	check.Error(t, err, "10 redirects")
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
			if r.URL.Path != path || r.Method != http.MethodGet {
				t.Errorf("address %q: %s %s, want GET %s", address, r.Method, r.URL.Path, path)
			}
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

package signalfx

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/hosted"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/jsonstream"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/leak"
	"github.com/plimsoll-scheduler/plimsoll/test/sourcetest"
)

const (
	token = "s3cr3t-t0ken"
	// minute is the beginning of a minute in seconds since 1970, and now is 20 s later.
	minute = 1_699_999_980
)

var now = time.Unix(minute+20, 0)

func node(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }

func nodes(count int) []*corev1.Node {
	all := make([]*corev1.Node, count)
	for i := range all {
		all[i] = node(fmt.Sprintf("n%d", i))
	}
	return all
}

// series is a metric time series of the stub. Its values are in percent, the last one of the minute that began 20 s ago; NaN is a
// null.
type series struct {
	id, metric, host, cluster string
	percent                   []float64
}

// stub speaks the part of the SignalFx API that is used.
type stub struct {
	*httptest.Server
	series []series
	// respond, unless nil, responds to the requests of a path.
	respond map[string]http.HandlerFunc
	// cap is the most results of a page, if it is less than the limit that was asked for.
	cap int

	mu       sync.Mutex
	requests []*http.Request
}

func newStub(t *testing.T, series ...series) *stub {
	t.Helper()
	s := &stub{series: series, respond: map[string]http.HandlerFunc{}, cap: math.MaxInt}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *stub) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r)
	respond := s.respond[r.URL.Path]
	s.mu.Unlock()
	switch {
	case respond != nil:
		respond(w, r)
	case r.Header.Get("X-SF-Token") != token || r.Header.Get("Authorization") != "":
		w.WriteHeader(http.StatusUnauthorized)
	case r.URL.Path == "/v1/timeserieswindow":
		s.values(w, r)
	case r.URL.Path == "/v2/metrictimeseries":
		s.names(w, r)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// selected returns the series that a query of terms joined by AND selects.
func (s *stub) selected(query string) (selected []series) {
	for _, one := range s.series {
		matches := true
		for _, term := range strings.Split(query, " AND ") {
			key, value, _ := strings.Cut(strings.Trim(term, "()"), ":")
			value = strings.Trim(value, `"`)
			switch key {
			case "sf_metric":
				matches = matches && one.metric == value
			case "host":
				matches = matches && strings.HasSuffix(one.host, strings.TrimPrefix(value, "*"))
			case "cluster":
				matches = matches && one.cluster == value
			default:
				panic("term " + term)
			}
		}
		if matches {
			selected = append(selected, one)
		}
	}
	return selected
}

func (s *stub) values(w http.ResponseWriter, r *http.Request) {
	parameters := r.URL.Query()
	number := func(name string) int64 {
		n, err := strconv.ParseInt(parameters.Get(name), 10, 64)
		if err != nil {
			panic(err)
		}
		return n
	}
	start, end, resolution := number("startMs"), number("endMs"), number("resolution")
	data := map[string][][2]any{}
	for _, one := range s.selected(parameters.Get("query")) {
		points := [][2]any{}
		for i, value := range one.percent {
			at := minute*1000 - int64(len(one.percent)-1-i)*resolution
			if at < start || at > end {
				continue
			}
			if math.IsNaN(value) {
				points = append(points, [2]any{at, nil})
			} else {
				points = append(points, [2]any{at, value})
			}
		}
		data[one.id] = points
	}
	write(w, map[string]any{"data": data, "errors": []any{}})
}

func (s *stub) names(w http.ResponseWriter, r *http.Request) {
	limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
	if err != nil {
		panic(err)
	}
	offset, err := strconv.Atoi(r.URL.Query().Get("offset"))
	if err != nil {
		panic(err)
	}
	selected := s.selected(r.URL.Query().Get("query"))
	results := []any{}
	for _, one := range selected[min(offset, len(selected)):min(offset+min(limit, s.cap), len(selected))] {
		dimensions := map[string]any{"cluster": one.cluster, "sf_metric": nil}
		if one.host != "" {
			dimensions["host"] = one.host
		}
		results = append(results,
			map[string]any{"active": true, "creator": nil, "id": one.id, "metric": one.metric, "dimensions": dimensions})
	}
	write(w, map[string]any{"count": len(selected), "partialCount": false, "results": results})
}

func write(w http.ResponseWriter, value any) {
	if err := json.NewEncoder(w).Encode(value); err != nil {
		panic(err)
	}
}

// paths returns the paths of the requests so far, and forgets them.
func (s *stub) paths() (paths []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		paths = append(paths, r.URL.Path)
	}
	s.requests = nil
	return paths
}

func newSource(t *testing.T, cfg hosted.Config, c *clocktesting.FakePassiveClock, nodes ...*corev1.Node) *Source {
	t.Helper()
	cfg.BearerToken, cfg.Timeout = token, 5*time.Minute // as long as a busy machine may need
	s := check.Value(New(cfg, sourcetest.Lister(t, nodes...), c))(t)
	t.Cleanup(func() {
		check.OK(t, s.Close())
	})
	return s
}

// logged returns the last batch of a few refreshes, and their log lines.
func logged(t *testing.T, s *Source, refreshes int) (batch source.Batch, lines []string) {
	t.Helper()
	sink := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 2})
	for range refreshes {
		var err error
		batch, err = s.Fetch(klog.NewContext(t.Context(), sink), source.Request{Windows: []time.Duration{5 * time.Minute}})
		check.OK(t, err)
	}
	return batch, lines
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	check.Error(t, err, parts...)
	check.Lacks(t, err.Error(), token)
}

func cpu(id, host string, percent ...float64) series {
	return series{id: id, metric: "cpu.utilization", host: host, percent: percent}
}

func memory(id, host string, percent ...float64) series {
	return series{id: id, metric: "memory.utilization", host: host, percent: percent}
}

func TestFetch_EndIsTheNewestPoint(t *testing.T) {
	nan := math.NaN()
	server := newStub(t,
		cpu("A", "n1", 10, 20, nan),                      // ends a minute earlier than memory
		memory("B", "n1", 50, 50, 50),                    // a series of three minutes
		cpu("C", "n2", 10, nan, nan, nan, nan, nan, nan), // ended six minutes ago
	)
	s := newSource(t, hosted.Config{Address: server.URL}, clocktesting.NewFakePassiveClock(now), node("n1"), node("n2"))
	got := check.Value(sourcetest.Fetch(t, s, 5*time.Minute))(t)
	sourcetest.WantSamples(t, got, []load.Sample{
		{Node: "n1", Window: 5 * time.Minute, End: time.Unix(minute-60, 0), Stats: load.Stats{load.CPU: {Mean: 0.15, StdDev: 0.05, Span: 2 * time.Minute, Known: true}}},
		{Node: "n1", Window: 5 * time.Minute, End: time.Unix(minute, 0), Stats: load.Stats{load.Memory: {Mean: 0.5, StdDev: 0, Span: 3 * time.Minute, Known: true}}},
	})
}

func TestFetch_Queries(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg     hosted.Config
		windows []time.Duration
		// want are the queries for values of cpu: query, resolution in ms, and the seconds from startMs to endMs.
		want []string
	}{
		"the default": {hosted.Config{}, []time.Duration{5 * time.Minute, 15 * time.Minute}, []string{`sf_metric:"cpu.utilization" AND host:* 60000 1260`}},
		"cluster and suffix": {hosted.Config{ClusterName: "prod", HostNameSuffix: ".example.com"}, []time.Duration{5 * time.Minute},
			[]string{`sf_metric:"cpu.utilization" AND host:*.example.com AND cluster:prod 60000 660`}},
		"a custom query": {hosted.Config{CPUQuery: `sf_metric:"x" OR sf_metric:"y"`, ClusterName: "prod"}, []time.Duration{5 * time.Minute},
			[]string{`(sf_metric:"x" OR sf_metric:"y") AND host:* AND cluster:prod 60000 660`}},
		// A window of 10 s has points of a second, one of a day points of five minutes.
		"windows of other lengths": {hosted.Config{}, []time.Duration{24 * time.Hour, 10 * time.Second, 5 * time.Minute}, []string{
			`sf_metric:"cpu.utilization" AND host:* 1000 311`, `sf_metric:"cpu.utilization" AND host:* 60000 660`,
			`sf_metric:"cpu.utilization" AND host:* 300000 87000`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			server := newStub(t)
			var got []string
			server.respond["/v1/timeserieswindow"] = func(w http.ResponseWriter, r *http.Request) {
				q := r.URL.Query()
				start, _ := strconv.ParseInt(q.Get("startMs"), 10, 64)
				end, _ := strconv.ParseInt(q.Get("endMs"), 10, 64)
				check.Equal(t, "endMs", now.UnixMilli(), end)
				if !strings.Contains(q.Get("query"), "memory") {
					got = append(got, fmt.Sprintf("%s %s %d", q.Get("query"), q.Get("resolution"), (end-start)/1000))
				}
				write(w, map[string]any{"data": map[string]any{}, "errors": []any{}})
			}
			tt.cfg.Address = server.URL
			s := newSource(t, tt.cfg, clocktesting.NewFakePassiveClock(now), node("n1"))
			if _, err := sourcetest.Fetch(t, s, tt.windows...); err == nil {
				t.Error("no series, and no error")
			}
			check.Equal(t, "queries", tt.want, got)
		})
	}
}

func TestFetch_NumberOfQueries(t *testing.T) {
	var all []series
	for i := range 100 {
		all = append(all, cpu(fmt.Sprint("c", i), fmt.Sprint("n", i), 10), memory(fmt.Sprint("m", i), fmt.Sprint("n", i), 20))
	}
	server := newStub(t, all...)
	s := newSource(t, hosted.Config{Address: server.URL}, clocktesting.NewFakePassiveClock(now), nodes(100)...)
	for refresh, want := range []int{4, 2, 2} { // two for values, and at first two for hosts
		check.Value(sourcetest.Fetch(t, s, 5*time.Minute, 15*time.Minute))(t)
		if got := server.paths(); len(got) != want {
			t.Errorf("refresh %d sent %v, want %d requests", refresh, got, want)
		}
	}
	server.series = append(server.series, cpu("new", "n100", 30))
	check.Value(sourcetest.Fetch(t, s, 5*time.Minute))(t)
	if got := server.paths(); len(got) != 3 {
		t.Errorf("for a new series %v were sent, want the hosts of cpu once more", got)
	}
}

func TestFetch_Pages(t *testing.T) {
	var all []series
	for i := range 25 {
		all = append(all, cpu(fmt.Sprint("c", i), fmt.Sprint("n", i), 10))
	}
	server := newStub(t, all...)
	server.cap = 10
	s := newSource(t, hosted.Config{Address: server.URL}, clocktesting.NewFakePassiveClock(now), nodes(25)...)
	got, err := sourcetest.Fetch(t, s, 5*time.Minute)
	check.OK(t, err)
	check.Equal(t, "nodes, want the 25 of three pages", 25, len(got))
	server.respond["/v2/metrictimeseries"] = func(w http.ResponseWriter, _ *http.Request) {
		write(w, map[string]any{"count": 1_000_000_000, "results": []any{map[string]any{"id": "x"}}})
	}
	server.paths()
	s = newSource(t, hosted.Config{Address: server.URL}, clocktesting.NewFakePassiveClock(now), nodes(25)...)
	_, err = sourcetest.Fetch(t, s, 5*time.Minute)
	wantError(t, err, "none of 25 series has a host: hosts are named by the dimension host")
	if got := len(server.paths()); got > maxPages+5 {
		t.Errorf("%d requests for pages without end", got)
	}
}

func TestFetch_MostSeriesOfAQuery(t *testing.T) {
	var all []series
	for i := range maxSeries {
		all = append(all, cpu(fmt.Sprint("c", i), fmt.Sprint("n", i), 10))
	}
	server := newStub(t, all...)
	s := newSource(t, hosted.Config{Address: server.URL}, clocktesting.NewFakePassiveClock(now), nodes(10_500)...)
	batch, lines := logged(t, s, 1)
	check.Equal(t, "samples", maxSeries, len(batch.Samples))
	if len(lines) != 1 ||
		!strings.Contains(lines[0], "the service returned 10000 series and returns no more of one query: set clusterName") {
		t.Errorf("log %q", lines)
	}
}

func TestFetch_LargeCluster(t *testing.T) {
	const count = 5000
	hour := make([]float64, 65)
	for i := range hour {
		hour[i] = 84.64246793530153
	}
	var all []series
	for i := range count {
		all = append(all, cpu(fmt.Sprint("c", i), fmt.Sprint("n", i), hour...), memory(fmt.Sprint("m", i), fmt.Sprint("n", i), hour...))
	}
	server := newStub(t, all...)
	s := newSource(t, hosted.Config{Address: server.URL}, clocktesting.NewFakePassiveClock(now), nodes(count)...)
	got := check.Value(sourcetest.Fetch(t, s, 5*time.Minute, time.Hour))(t)
	check.Equal(t, "samples", 2*count, len(got))
}

func TestFetch_UnmatchedHostsAreLoggedOnChange(t *testing.T) {
	server := newStub(t, cpu("A", "n1", 10), memory("B", "n1", 10), cpu("C", "other", 30))
	s := newSource(t, hosted.Config{Address: server.URL}, clocktesting.NewFakePassiveClock(now), node("n1"))
	if _, lines := logged(t, s, 3); len(lines) != 1 || !strings.Contains(lines[0], `"count"=1 "examples"="other"`) {
		t.Errorf("log %q", lines)
	}
}

func TestFetch_Errors(t *testing.T) {
	for name, tt := range map[string]struct {
		respond http.HandlerFunc
		want    []string
	}{
		"401": {sourcetest.Respond(401, "", "", `{"message":"Unauthorized"}`), []string{"status 401",
			`{"message":"Unauthorized"}`[2:9], "token or tokenFile is missing, wrong, expired", "realm"}},
		"403":                      {sourcetest.Respond(403, "", "", ""), []string{"status 403", "lacks the authorization scope API"}},
		"404":                      {sourcetest.Respond(404, "", "", ""), []string{"status 404", "set address to https://api.<realm>.signalfx.com"}},
		"400":                      {sourcetest.Respond(400, "", "", `{"message":"bad query"}`), []string{"status 400", "bad query", "check them"}},
		"500":                      {sourcetest.Respond(500, "", "", ""), []string{"status 500"}},
		"no JSON":                  {sourcetest.Respond(200, "", "", "<html>"), []string{"the response is not complete JSON", "invalid character", "check that address is the API's"}},
		"nothing":                  {sourcetest.Respond(200, "", "", ""), []string{"the response is not complete JSON", "unexpected EOF"}},
		"no data":                  {sourcetest.Respond(200, "", "", "{}"), []string{"not a response of the SignalFx API: no \"data\" field"}},
		"a point of one number":    {sourcetest.Respond(200, "", "", `{"data":{"A":[[1600000000000]]}}`), []string{"a point has 1 numbers: a pair of a time and a value is needed"}},
		"a point of three numbers": {sourcetest.Respond(200, "", "", `{"data":{"A":[[1600000000000,1,1]]}}`), []string{"a point has 3 numbers"}},
		"a point without a time":   {sourcetest.Respond(200, "", "", `{"data":{"A":[[null,1]]}}`), []string{"NaN is no time"}},
		"points that are no list":  {sourcetest.Respond(200, "", "", `{"data":{"A":{"B":1}}}`), []string{"cannot unmarshal object"}},
		"only errors in the response": {sourcetest.Respond(200, "", "", `{"data":{},"errors":[{"code":1,"message":"shard is down"}]}`),
			[]string{"the response is partial", "shard is down"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := newStub(t)
			server.respond["/v1/timeserieswindow"] = tt.respond
			s := newSource(t, hosted.Config{Address: server.URL}, clocktesting.NewFakePassiveClock(now), node("n1"))
			_, err := sourcetest.Fetch(t, s, 5*time.Minute)
			wantError(t, err, append(tt.want, "cpu: GET "+server.URL+"/v1/timeserieswindow: ", "and 1 more: memory: ")...)
		})
	}
}

func TestFetch_OneResourceFails(t *testing.T) {
	server := newStub(t, cpu("A", "n1", 10))
	server.respond["/v1/timeserieswindow"] = func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Query().Get("query"), "memory") {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		server.values(w, r)
	}
	s := newSource(t, hosted.Config{Address: server.URL}, clocktesting.NewFakePassiveClock(now), node("n1"))
	if batch, lines := logged(t, s, 2); len(batch.Samples) != 1 || len(lines) != 1 || !strings.Contains(lines[0], "memory: GET ") {
		t.Errorf("samples %v, log %q", batch.Samples, lines)
	}
}

func TestFetch_PartialResponse(t *testing.T) {
	server := newStub(t, cpu("A", "n1", 10), memory("B", "n1", 10))
	server.respond["/v1/timeserieswindow"] = func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"errors":[{"message":"a shard is down"}],"data":{"A":[[%d000,10],[%d000,"NaN"],[%d000,{"x":[1]}]],"B":[[%d000,20]]}}`,
			minute, minute, minute, minute)
	}
	s := newSource(t, hosted.Config{Address: server.URL}, clocktesting.NewFakePassiveClock(now), node("n1"))
	batch, lines := logged(t, s, 1)
	if len(batch.Samples) != 1 || !batch.Samples[0].Stats[load.Memory].Known {
		t.Errorf("samples %v", batch.Samples)
	}
	if len(lines) != 2 || !strings.Contains(lines[0], "a shard is down") || !strings.Contains(lines[1], "a series without a host") {
		t.Errorf("log %q", lines)
	}
}

// Known hosts stay known while hosts of new series cannot be looked up.
func TestFetch_LookupOfHostsFails(t *testing.T) {
	server := newStub(t, cpu("A", "n1", 10), memory("B", "n1", 10))
	s := newSource(t, hosted.Config{Address: server.URL}, clocktesting.NewFakePassiveClock(now), node("n1"), node("n2"))
	check.Value(sourcetest.Fetch(t, s, 5*time.Minute))(t)
	server.series = append(server.series, cpu("C", "n2", 20))
	server.respond["/v2/metrictimeseries"] = sourcetest.Respond(500, "", "", "")
	got, err := sourcetest.Fetch(t, s, 5*time.Minute)
	if err != nil || len(got) != 1 || got[0].Node != "n1" || !got[0].Stats[load.CPU].Known {
		t.Errorf("samples %v, error %v", got, err)
	}
}

// A series without a host must not cause a lookup of all hosts at each refresh.
func TestFetch_LookupsOfHostlessSeries(t *testing.T) {
	server := newStub(t, cpu("A", "n1", 10), cpu("X", "", 10), memory("B", "n1", 10))
	server.respond["/v1/timeserieswindow"] = func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"data":{"A":[[%d000,10]],"X":[[%d000,10]]}}`, minute, minute)
	}
	c := clocktesting.NewFakePassiveClock(now)
	s := newSource(t, hosted.Config{Address: server.URL}, c, node("n1"))
	const values, hosts = "/v1/timeserieswindow", "/v2/metrictimeseries"
	for _, step := range []struct {
		after time.Duration
		want  []string
	}{{0, []string{values, hosts, values, hosts}}, {time.Second, []string{values, values}}, {hostlessInterval, []string{values, hosts, values, hosts}}} {
		c.SetTime(now.Add(step.after))
		_, err := sourcetest.Fetch(t, s, 5*time.Minute)
		if diff := cmp.Diff(step.want, server.paths()); diff != "" {
			t.Errorf("requests after %v (-want +got), error %v:\n%s", step.after, err, diff)
		}
	}
}

func TestMain(m *testing.M) { leak.Main(m) }

// FuzzDecodeValues expects a mean to be a number within the values of the response.
func FuzzDecodeValues(f *testing.F) {
	for _, seed := range []string{
		`{"data":{"A":[[1600213380000,84.6],[1600213440000,null]],"B":[]},"errors":[]}`, `{"errors":[{"code":1}],"data":null}`,
		`{"data":{"A":[[1600213380000]]}}`, `{"data":{"A":[[-1,1e308],[1e13,1e308]]}}`, `{"data":{"A":null,"A":[[null,null]]}}`, `[]`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		rng := hosted.Range{Step: time.Minute, Windows: []time.Duration{5 * time.Minute, 15 * time.Minute}}
		response, err := decodeValues(jsonstream.NewDecoder(strings.NewReader(body), 1000), rng, now)
		if err != nil {
			return
		}
		if len(response.errors) > maxErrors {
			t.Errorf("%d errors kept", len(response.errors))
		}
		table := hosted.NewTable(nodes(1), "", func(text string) string { return text })
		for _, one := range response.series {
			table.Offer("n0", load.CPU, rng, time.Time{}, one)
		}
		for _, sample := range table.Samples(rng.Windows) {
			stat := sample.Stats[load.CPU]
			if !stat.Known || math.IsNaN(stat.Mean) || stat.Span < 0 || sample.End.IsZero() {
				t.Errorf("sample %+v", sample)
			}
		}
	})
}

// FuzzDecodePage expects an error or results.
func FuzzDecodePage(f *testing.F) {
	for _, seed := range []string{
		`{"count":5,"partialCount":false,"results":[{"id":"A","dimensions":{"host":"n1","sf_metric":null}}]}`, `{"results":null}`,
		`{"count":-1,"results":[{"id":1,"dimensions":{"host":["n1"]}},null]}`, `{"results":[{"name":"cpu.idle"}]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		page, err := decodePage(jsonstream.NewDecoder(strings.NewReader(body), 1000))
		if (page == nil) != (err != nil) {
			t.Errorf("page %v, error %v", page, err)
		}
	})
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
		"series":           {valuesPath, sourcetest.Endless(`{"data":{`, `"A":[],`), tooMany},
		"long series":      {valuesPath, sourcetest.Endless(`{"data":{`, `"A":[`+strings.Repeat("[1600000000000,1],", 1000)+`[1600000000000,1]],`), tooMany},
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
			sourcetest.Endless("no ", "x")(w, r)
		}, "status 500"},
		"hosts":               {hostsPath, sourcetest.Endless(`{"results":[`, `{},`), tooMany},
		"long hosts":          {hostsPath, sourcetest.Endless(`{"results":[`, `{"id":"A","dimensions":{"host":"`+strings.Repeat("x", 10_000)+`"}},`), tooMany},
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

func TestFetch_TextOfServer(t *testing.T) {
	evil := token + "\x1b[2J\u202e" + strings.Repeat("x", 10_000)
	escaped := token + `\u001b[2J\u202e` + strings.Repeat("x", 10_000) // in JSON
	values := fmt.Sprintf(`{"data":{"A":[[%d000,10]],"B%s":[[%d000,10]]},"errors":["%s",{"message":"%s"}]}`, minute, escaped, minute,
		escaped, escaped)
	for name, respond := range map[string]map[string]http.HandlerFunc{
		"errors and names": {"/v1/timeserieswindow": sourcetest.Respond(200, "", "", values)},
		"hosts":            {"/v2/metrictimeseries": sourcetest.Respond(200, "", "", `{"results":[{"id":"A","dimensions":{"host":"`+escaped+`"}}]}`)},
		"an error":         {"/v1/timeserieswindow": sourcetest.Respond(400, "", "", evil)},
		"no JSON":          {"/v1/timeserieswindow": sourcetest.Respond(200, "", "", "<html>"+evil)},
		"a number":         {"/v1/timeserieswindow": sourcetest.Respond(200, "", "", `{"data":{"A":[["`+escaped+`",1]]}}`)},
		"a rate limit":     {"/v1/timeserieswindow": sourcetest.Respond(429, "Retry-After", strings.Repeat("9", 1000)+token, evil)},
	} {
		t.Run(name, func(t *testing.T) {
			server := newStub(t, cpu("A", "n1", 10))
			server.respond = respond
			s := newSource(t, hosted.Config{Address: server.URL}, clocktesting.NewFakePassiveClock(now), node("n1"))
			sourcetest.CheckTextOfServer(t, s, token)
		})
	}
}

package signalfx

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/hosted"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
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
	case r.Header.Get("X-SF-Token") != token:
		w.WriteHeader(http.StatusUnauthorized)
	case r.URL.Path == "/v1/timeserieswindow":
		s.values(w, r)
	case r.URL.Path == "/v2/metrictimeseries":
		s.names(w, r)
	case r.URL.Path == "/v2/metric":
		s.metrics(w)
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

func (s *stub) metrics(w http.ResponseWriter) {
	write(w, map[string]any{"count": 2, "results": []any{
		map[string]any{"name": "cpu.idle", "type": "GAUGE"}, map[string]any{"name": "cpu.user", "type": "GAUGE"},
	}})
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
	if cfg.BearerToken == "" && cfg.BearerTokenFile == "" {
		cfg.BearerToken = token
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 5 * time.Minute // as long as a busy machine may need
	}
	s, err := New(cfg, sourcetest.Lister(t, nodes...), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	check.Error(t, err, parts...)
	if strings.Contains(err.Error(), token) {
		t.Errorf("error shows a secret: %s", err)
	}
}

func cpu(id, host string, percent ...float64) series {
	return series{id: id, metric: "cpu.utilization", host: host, percent: percent}
}

func memory(id, host string, percent ...float64) series {
	return series{id: id, metric: "memory.utilization", host: host, percent: percent}
}

func TestFetch_MeansAndDeviations(t *testing.T) {
	nan := math.NaN()
	server := newStub(t,
		cpu("A", "n1", 99, 99, 99, 99, 99, 10, 20, 30, 40, 50), // ten minutes
		memory("B", "n1", 60, 60, 60, 60, 60, 60, 60, 60, 60, 60),
		cpu("C", "n2.example.com", 90, 90, 90, 90, 90, 20, nan, nan, nan, 40), // a gap
		memory("D", "n2.example.com", nan, nan),
	)
	s := newSource(t, hosted.Config{Address: server.URL}, clocktesting.NewFakePassiveClock(now), node("n1"), node("n2.example.com"))
	got, err := sourcetest.Fetch(t, s, 10*time.Minute, 5*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	end := time.Unix(minute, 0)
	sourcetest.WantSamples(t, got, []load.Sample{
		// 5m: (10+20+30+40+50)/5 = 30, deviations -20..20: √((400+100+0+100+400)/5) = √200
		{Node: "n1", Window: 5 * time.Minute, End: end, Stats: load.Stats{
			{Mean: 0.3, StdDev: math.Sqrt(200) / 100, Known: true}, {Mean: 0.6, StdDev: 0, Known: true}}},
		// 10m: (5·99+150)/10 = 64.5; (5·34.5² + 54.5²+44.5²+34.5²+24.5²+14.5²)/10 = (5951.25 + 6951.25)/10 = 1290.25
		{Node: "n1", Window: 10 * time.Minute, End: end, Stats: load.Stats{
			{Mean: 0.645, StdDev: math.Sqrt(1290.25) / 100, Known: true}, {Mean: 0.6, StdDev: 0, Known: true}}},
		// 5m: (20+40)/2 = 30 ± 10; nulls are not zeros, and nulls alone have no mean
		{Node: "n2.example.com", Window: 5 * time.Minute, End: end, Stats: load.Stats{{Mean: 0.3, StdDev: 0.1, Known: true}}},
		// 10m: (5·90+20+40)/7 = 510/7; (5·(120/7)² + (370/7)² + (230/7)²)/7 = (72000+136900+52900)/343 = 261800/343
		{Node: "n2.example.com", Window: 10 * time.Minute, End: end, Stats: load.Stats{
			{Mean: 5.1 / 7, StdDev: math.Sqrt(261800.0/343) / 100, Known: true}}},
	})
}

func TestFetch_EndIsTheNewestPoint(t *testing.T) {
	nan := math.NaN()
	server := newStub(t,
		cpu("A", "n1", 10, 20, nan),                      // ends a minute earlier than memory
		memory("B", "n1", 50, 50, 50),                    // a series of three minutes
		cpu("C", "n2", 10, nan, nan, nan, nan, nan, nan), // ended six minutes ago
	)
	s := newSource(t, hosted.Config{Address: server.URL}, clocktesting.NewFakePassiveClock(now), node("n1"), node("n2"))
	got, err := sourcetest.Fetch(t, s, 5*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	sourcetest.WantSamples(t, got, []load.Sample{
		{Node: "n1", Window: 5 * time.Minute, End: time.Unix(minute-60, 0), Stats: load.Stats{
			load.CPU: {Mean: 0.15, StdDev: 0.05, Span: 2 * time.Minute, Known: true}}},
		{Node: "n1", Window: 5 * time.Minute, End: time.Unix(minute, 0), Stats: load.Stats{
			load.Memory: {Mean: 0.5, StdDev: 0, Span: 3 * time.Minute, Known: true}}},
	})
}

func TestFetch_Queries(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg     hosted.Config
		windows []time.Duration
		// want are the queries for values of cpu: query, resolution in ms, and the seconds from startMs to endMs.
		want []string
	}{
		"the default": {hosted.Config{}, []time.Duration{5 * time.Minute, 15 * time.Minute},
			[]string{`sf_metric:"cpu.utilization" AND host:* 60000 1260`}},
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
				if end != now.UnixMilli() {
					t.Errorf("endMs %d, want %d", end, now.UnixMilli())
				}
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
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("queries (-want +got):\n%s", diff)
			}
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
		if _, err := sourcetest.Fetch(t, s, 5*time.Minute, 15*time.Minute); err != nil {
			t.Fatal(err)
		}
		if got := server.paths(); len(got) != want {
			t.Errorf("refresh %d sent %v, want %d requests", refresh, got, want)
		}
	}
	server.series = append(server.series, cpu("new", "n100", 30))
	if _, err := sourcetest.Fetch(t, s, 5*time.Minute); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 25 {
		t.Errorf("%d nodes, want the 25 of three pages", len(got))
	}
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
	var lines []string
	sink := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	batch, err := s.Fetch(klog.NewContext(t.Context(), sink), source.Request{Windows: []time.Duration{5 * time.Minute}})
	if err != nil || len(batch.Samples) != maxSeries {
		t.Errorf("%d samples, error %v", len(batch.Samples), err)
	}
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
	got, err := sourcetest.Fetch(t, s, 5*time.Minute, time.Hour)
	if err != nil || len(got) != 2*count {
		t.Errorf("%d samples, want %d; error %v", len(got), 2*count, err)
	}
}

func TestFetch_Hosts(t *testing.T) {
	for name, tt := range map[string]struct {
		suffix string
		series []series
		nodes  []*corev1.Node
		// want are the means by node.
		want      map[string]float64
		unmatched int
	}{
		"names with dots are not cut": {"", []series{cpu("A", "n1.a", 10), cpu("B", "n1.b", 20)}, []*corev1.Node{node("n1.a"),
			node("n1.b")},
			map[string]float64{"n1.a": 0.1, "n1.b": 0.2}, 0},
		"a host of another cluster does not stand for a node": {"", []series{cpu("A", "n1", 10), cpu("B", "n1.other", 90)},
			[]*corev1.Node{node("n1")},
			map[string]float64{"n1": 0.1}, 1},
		"the suffix is dropped": {".example.com", []series{cpu("A", "n1.eu.example.com", 10)}, []*corev1.Node{node("n1.eu")},
			map[string]float64{"n1.eu": 0.1}, 0},
		"a node may be called as the host": {".example.com", []series{cpu("A", "n1.example.com", 10)},
			[]*corev1.Node{node("n1.example.com")},
			map[string]float64{"n1.example.com": 0.1}, 0},
		"the node's own name wins": {"", []series{cpu("A", "N1", 90), cpu("B", "n1", 10)}, []*corev1.Node{node("n1")},
			map[string]float64{"n1": 0.1}, 0},
		"of two series of a host the greater one counts": {"", []series{cpu("A", "n1", 10), cpu("B", "n1", 30), cpu("C", "n1", 20)},
			[]*corev1.Node{node("n1")},
			map[string]float64{"n1": 0.3}, 0},
		"a series without a host": {"", []series{cpu("A", "n1", 10), cpu("B", "", 30)}, []*corev1.Node{node("n1")},
			map[string]float64{"n1": 0.1}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			server := newStub(t, tt.series...)
			s := newSource(
				t,
				hosted.Config{Address: server.URL, HostNameSuffix: tt.suffix},
				clocktesting.NewFakePassiveClock(now),
				tt.nodes...)
			batch, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{5 * time.Minute}})
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]float64{}
			for _, sample := range batch.Samples {
				got[sample.Node] = sample.Stats[load.CPU].Mean
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
				t.Errorf("means (-want +got):\n%s", diff)
			}
			if batch.UnmatchedCount != tt.unmatched {
				t.Errorf("%d unmatched, want %d", batch.UnmatchedCount, tt.unmatched)
			}
		})
	}
}

func TestFetch_UnmatchedHostsAreLoggedOnChange(t *testing.T) {
	server := newStub(t, cpu("A", "n1", 10), memory("B", "n1", 10), cpu("C", "other", 30))
	s := newSource(t, hosted.Config{Address: server.URL}, clocktesting.NewFakePassiveClock(now), node("n1"))
	var lines []string
	sink := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 2})
	for range 3 {
		if _, err := s.Fetch(klog.NewContext(t.Context(), sink), source.Request{Windows: []time.Duration{5 * time.Minute}}); err != nil {
			t.Fatal(err)
		}
	}
	if len(lines) != 1 || !strings.Contains(lines[0], `"count"=1 "examples"="other"`) {
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
		"403": {sourcetest.Respond(403, "", "", ""), []string{"status 403", "lacks the authorization scope API"}},
		"404": {sourcetest.Respond(404, "", "", ""), []string{"status 404",
			"set address to https://api.<realm>.signalfx.com"}},
		"400": {sourcetest.Respond(400, "", "", `{"message":"bad query"}`), []string{"status 400", "bad query",
			"check them"}},
		"500": {sourcetest.Respond(500, "", "", ""), []string{"status 500"}},
		"no JSON": {sourcetest.Respond(200, "", "", "<html>"), []string{"the response is not complete JSON", "invalid character",
			"check that address is the API's"}},
		"nothing": {sourcetest.Respond(200, "", "", ""), []string{"the response is not complete JSON", "unexpected EOF"}},
		"no data": {sourcetest.Respond(200, "", "", "{}"), []string{"not a response of the SignalFx API: no \"data\" field"}},
		"a point of one number": {sourcetest.Respond(200, "", "", `{"data":{"A":[[1600000000000]]}}`),
			[]string{"1 series have points other than pairs of a time and a value: A"}},
		"a point without a time": {sourcetest.Respond(200, "", "", `{"data":{"A":[[null,1]]}}`),
			[]string{"1 series have points other than pairs of a time and a value: A"}},
		"points that are no list": {sourcetest.Respond(200, "", "", `{"data":{"A":{"B":1}}}`), []string{"1 series have points"}},
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
	var lines []string
	sink := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	for range 2 {
		batch, err := s.Fetch(klog.NewContext(t.Context(), sink), source.Request{Windows: []time.Duration{5 * time.Minute}})
		if err != nil || len(batch.Samples) != 1 {
			t.Fatalf("samples %v, error %v", batch.Samples, err)
		}
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "memory: GET ") {
		t.Errorf("log %q", lines)
	}
}

func TestFetch_PartialResponse(t *testing.T) {
	server := newStub(t, cpu("A", "n1", 10), memory("B", "n1", 10))
	server.respond["/v1/timeserieswindow"] = func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"errors":[{"message":"a shard is down"}],"data":{"A":[[%d000,10]],"B":[[%d000,20]]}}`, minute, minute)
	}
	s := newSource(t, hosted.Config{Address: server.URL}, clocktesting.NewFakePassiveClock(now), node("n1"))
	var lines []string
	sink := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	batch, err := s.Fetch(klog.NewContext(t.Context(), sink), source.Request{Windows: []time.Duration{5 * time.Minute}})
	if err != nil || len(batch.Samples) != 1 || !batch.Samples[0].Stats[load.Memory].Known {
		t.Errorf("samples %v, error %v", batch.Samples, err)
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "a shard is down") {
		t.Errorf("log %q", lines)
	}
}

// An unreadable part of a response does not affect the rest.
func TestFetch_MalformedSeries(t *testing.T) {
	for name, tt := range map[string]struct {
		// series is the JSON of n2 in responses with values, and host in responses with hosts.
		series, host string
		// want is in the log; without it, nothing is logged.
		want string
	}{
		"a value that is no number": {`[[%[1]d000,"NaN"]]`, `{"id":"B","dimensions":{"host":"n2"}}`, ""},
		"a value that is an object": {`[[%[1]d000,{"x":[1]}]]`, `{"id":"B","dimensions":{"host":"n2"}}`, ""},
		"a point of three numbers": {`[[%[1]d000,1,1]]`, `{"id":"B","dimensions":{"host":"n2"}}`,
			"1 series have points other than pairs of a time and a value: B"},
		"a time that is no number":      {`[["now",1]]`, `{"id":"B","dimensions":{"host":"n2"}}`, "1 series have points"},
		"points that are no list":       {`5`, `{"id":"B","dimensions":{"host":"n2"}}`, "1 series have points"},
		"dimensions that are no object": {`[[%[1]d000,10]]`, `{"id":"B","dimensions":[]}`, "series B without a host"},
		"metadata that is no object":    {`[[%[1]d000,10]]`, `5`, "series B without a host"},
	} {
		t.Run(name, func(t *testing.T) {
			server := newStub(t)
			server.respond["/v1/timeserieswindow"] = func(w http.ResponseWriter, _ *http.Request) {
				series := strings.ReplaceAll(tt.series, "%[1]d", strconv.Itoa(minute))
				_, _ = fmt.Fprintf(w, `{"data":{"B":%s,"A":[[%d000,10]]}}`, series, minute)
			}
			server.respond["/v2/metrictimeseries"] = sourcetest.Respond(200, "", "",
				`{"count":"2","results":[`+tt.host+`,{"id":"A","dimensions":{"host":"n1"}}]}`)
			s := newSource(t, hosted.Config{Address: server.URL}, clocktesting.NewFakePassiveClock(now), node("n1"), node("n2"))
			var lines []string
			sink := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 2})
			for range 2 {
				batch, err := s.Fetch(klog.NewContext(t.Context(), sink), source.Request{Windows: []time.Duration{5 * time.Minute}})
				if err != nil || len(batch.Samples) != 1 || batch.Samples[0].Node != "n1" {
					t.Errorf("samples %v, error %v", batch.Samples, err)
				}
			}
			switch {
			case tt.want == "" && len(lines) > 0:
				t.Errorf("log %q, want nothing", lines)
			case tt.want != "" && (len(lines) != 1 || !strings.Contains(lines[0], tt.want)):
				t.Errorf("log %q, want one line with %q", lines, tt.want)
			}
		})
	}
}

// Known hosts stay known while hosts of new series cannot be looked up.
func TestFetch_LookupOfHostsFails(t *testing.T) {
	server := newStub(t, cpu("A", "n1", 10), memory("B", "n1", 10))
	s := newSource(t, hosted.Config{Address: server.URL}, clocktesting.NewFakePassiveClock(now), node("n1"), node("n2"))
	if _, err := sourcetest.Fetch(t, s, 5*time.Minute); err != nil {
		t.Fatal(err)
	}
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
	}{{0, []string{values, hosts, values, hosts}}, {time.Second, []string{values, values}}, {hostlessInterval, []string{values, hosts,
		values, hosts}}} {
		c.SetTime(now.Add(step.after))
		_, err := sourcetest.Fetch(t, s, 5*time.Minute)
		if diff := cmp.Diff(step.want, server.paths()); diff != "" {
			t.Errorf("requests after %v (-want +got), error %v:\n%s", step.after, err, diff)
		}
	}
}

// Points of a host whose clock is ahead neither hide those of the present nor stay fresh.
func TestFetch_PointsOfTheFuture(t *testing.T) {
	server := newStub(t)
	server.respond["/v1/timeserieswindow"] = func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"data":{"A":[[%d000,50],[%d000,10]],"B":[[%d000,50]]}}`, minute+3600, minute, minute+10*24*3600)
	}
	server.respond["/v2/metrictimeseries"] = sourcetest.Respond(200, "", "",
		`{"results":[{"id":"A","dimensions":{"host":"n1"}},{"id":"B","dimensions":{"host":"n2"}}]}`)
	s := newSource(t, hosted.Config{Address: server.URL}, clocktesting.NewFakePassiveClock(now), node("n1"), node("n2"))
	got, err := sourcetest.Fetch(t, s, 5*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	one := load.Stat{Mean: 0.1, StdDev: math.NaN(), Span: time.Minute, Known: true}
	sourcetest.WantSamples(t, got, []load.Sample{{Node: "n1", Window: 5 * time.Minute, End: time.Unix(minute, 0), Stats: load.Stats{one, one}}})
}

func TestFetch_UnknownMetric(t *testing.T) {
	server := newStub(t)
	c := clocktesting.NewFakePassiveClock(now)
	s := newSource(t, hosted.Config{Address: server.URL, ClusterName: "prod"}, c, node("n1"))
	_, err := sourcetest.Fetch(t, s, 5*time.Minute)
	wantError(t, err, `cpu: query sf_metric:"cpu.utilization" AND host:* AND cluster:prod at `+server.URL,
		`no series; with "cpu" in its name the account has cpu.idle, cpu.user: set queries.cpu`, "check clusterName and hostNameSuffix")
	server.paths()
	again := func(want ...string) {
		t.Helper()
		if _, err := sourcetest.Fetch(t, s, 5*time.Minute); err == nil {
			t.Error("no error")
		}
		if diff := cmp.Diff(want, server.paths()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	}
	// Names are looked up every five minutes, not at each refresh.
	again("/v1/timeserieswindow", "/v1/timeserieswindow")
	c.SetTime(now.Add(5 * time.Minute))
	again("/v1/timeserieswindow", "/v2/metric", "/v1/timeserieswindow", "/v2/metric")
}

func TestFetch_RateLimit(t *testing.T) {
	for name, tt := range map[string]struct {
		header, value string
		wait          time.Duration
	}{
		"seconds until the reset": {"X-RateLimit-Reset", "42", 42 * time.Second},
		"seconds to wait":         {"Retry-After", "17", 17 * time.Second},
		"a time":                  {"Retry-After", now.Add(90 * time.Second).UTC().Format(http.TimeFormat), 90 * time.Second},
		"a time in a year":        {"Retry-After", now.AddDate(1, 0, 0).UTC().Format(http.TimeFormat), time.Hour},
		"nothing":                 {"", "", time.Minute}, // the service documents no header
		"what is no number":       {"Retry-After", "soon", time.Minute},
		"a negative number":       {"Retry-After", "-5", time.Minute},
		"NaN":                     {"Retry-After", "NaN", time.Minute},
		"a year":                  {"Retry-After", "31536000", time.Hour},
		"seconds since 1970":      {"X-RateLimit-Reset", strconv.FormatInt(now.Unix()+5, 10), 5 * time.Second},
		"a moment of the past":    {"X-RateLimit-Reset", strconv.FormatInt(now.Unix()-5, 10), time.Minute},
		"milliseconds since 1970": {"X-RateLimit-Reset", strconv.FormatInt(now.UnixMilli()+5000, 10), time.Minute},
		"Inf":                     {"X-RateLimit-Reset", "Inf", time.Minute},
		"infinity":                {"X-RateLimit-Reset", "1e999", time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			server := newStub(t, cpu("A", "n1", 10), memory("B", "n1", 10))
			server.respond["/v1/timeserieswindow"] = sourcetest.Respond(http.StatusTooManyRequests, tt.header, tt.value, "slow down")
			c := clocktesting.NewFakePassiveClock(now)
			s := newSource(t, hosted.Config{Address: server.URL}, c, node("n1"))
			reset := now.Add(tt.wait).UTC().Format("15:04:05 UTC")
			_, err := sourcetest.Fetch(t, s, 5*time.Minute)
			wantError(t, err, "status 429", "slow down", "no query is sent before "+reset)
			if got := server.paths(); len(got) != 1 {
				t.Errorf("requests %v, want none after the refusal", got)
			}
			server.respond["/v1/timeserieswindow"] = nil

			c.SetTime(now.Add(tt.wait - time.Millisecond))
			_, err = sourcetest.Fetch(t, s, 5*time.Minute)
			wantError(t, err, "no query is sent before "+reset)
			if got := server.paths(); len(got) != 0 {
				t.Errorf("requests %v before the reset", got)
			}

			c.SetTime(now.Add(tt.wait))
			if got, err := sourcetest.Fetch(t, s, 5*time.Minute); err != nil && tt.wait <= 5*time.Minute {
				t.Errorf("after the reset: samples %v, error %v", got, err)
			}
			if got := server.paths(); len(got) == 0 {
				t.Error("no request after the reset")
			}
		})
	}
}

func TestFetch_RateLimitEndsWhenTheClockGoesBack(t *testing.T) {
	server := newStub(t, cpu("A", "n1", 10), memory("B", "n1", 10))
	server.respond["/v1/timeserieswindow"] = sourcetest.Respond(http.StatusTooManyRequests, "Retry-After", "60", "")
	c := clocktesting.NewFakePassiveClock(now.Add(24 * time.Hour))
	s := newSource(t, hosted.Config{Address: server.URL}, c, node("n1"))
	if _, err := sourcetest.Fetch(t, s, 5*time.Minute); err == nil {
		t.Error("no error")
	}
	server.respond["/v1/timeserieswindow"] = nil
	c.SetTime(now)
	if _, err := sourcetest.Fetch(t, s, 5*time.Minute); err != nil {
		t.Error(err)
	}
}

func TestFetch_TokenFileRotates(t *testing.T) {
	server := newStub(t, cpu("A", "n1", 10), memory("B", "n1", 10))
	file := filepath.Join(t.TempDir(), "token")
	writeToken := func(value string) {
		if err := os.WriteFile(file, []byte(value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	writeToken("old")
	s := newSource(t, hosted.Config{Address: server.URL, Config: httpclient.Config{BearerTokenFile: file}},
		clocktesting.NewFakePassiveClock(now), node("n1"))
	if _, err := sourcetest.Fetch(t, s, 5*time.Minute); err == nil {
		t.Error("the old token was accepted")
	}
	writeToken(token)
	if _, err := sourcetest.Fetch(t, s, 5*time.Minute); err != nil {
		t.Error(err)
	}
	for _, r := range server.requests {
		if r.Header.Get("Authorization") != "" {
			t.Error("the token was sent as a bearer token too")
		}
	}
}

func TestFetch_Refused(t *testing.T) {
	server := newStub(t)
	c := clocktesting.NewFakePassiveClock(now)
	_, err := sourcetest.Fetch(t, newSource(t, hosted.Config{Address: server.URL}, c), 5*time.Minute)
	wantError(t, err, "no Node is known")
	_, err = sourcetest.Fetch(t, newSource(t, hosted.Config{Address: server.URL}, c, node("n1")))
	wantError(t, err, "need at least one")
	_, err = sourcetest.Fetch(t, newSource(t, hosted.Config{Address: server.URL}, c, node("n1")), 0)
	wantError(t, err, "positive windows")
	if got := server.paths(); len(got) != 0 {
		t.Errorf("requests %v", got)
	}
}

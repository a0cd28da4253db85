package prometheus

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// targets are the labels of a target in queries, beside nodeLabels.
const targets = "instance, job, namespace, service, pod"

// onlyFor responds to one query, and with an empty vector to any other.
func onlyFor(promql string, respond func(http.ResponseWriter, *http.Request)) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("query") == promql {
			respond(w, r)
			return
		}
		vector()(w, r)
	}
}

func ends(samples []load.Sample) map[string]time.Time {
	byNode := map[string]time.Time{}
	for _, s := range samples {
		byNode[s.Node] = s.End
	}
	return byNode
}

// The nodes are scraped every 30 s. The last scrape of w1 was 20 s before the query, and of w2 5.25 s before.
func TestFetch_EndIsNewestSample(t *testing.T) {
	const lastScrapes1, lastScrapes2 = "1699999980", "1699999994.75"
	for _, tt := range []struct {
		dialect promql.Dialect
		newest  string
	}{
		{promql.NodeExporter, `max by (node, host, ` + targets + `) (timestamp(node_cpu_seconds_total{mode="idle"}))`},
		{promql.KubePrometheus, "max by (node, host, " + targets + ") (timestamp(instance:node_cpu_utilisation:rate5m)) or " +
			"max by (node, host, " + targets + ") (timestamp(instance:node_cpu:ratio))"},
		{promql.Kubelet, "max by (node, host, " + targets + ") (timestamp(node_cpu_usage_seconds_total))"},
		{promql.CAdvisor, `max by (node, host, ` + targets + `) (timestamp(container_cpu_usage_seconds_total{id="/"}))`},
	} {
		t.Run(string(tt.dialect), func(t *testing.T) {
			srv := newServer(t, rule{"", vector(element{`"node":"w1"`, "0.5"}, element{`"node":"w2"`, "0.5"})})
			srv.newest = onlyFor(tt.newest, vector(element{`"node":"w1"`, lastScrapes1}, element{`"host":"w2"`, lastScrapes2}))
			s := newTestSource(t, Config{Address: srv.URL, Dialect: tt.dialect, NodeLabels: []string{"node", "host"}}, twoNodes()...)
			batch, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window, 3 * window}})
			if err != nil {
				t.Fatal(err)
			}
			if len(batch.Samples) != 4 {
				t.Fatalf("%d samples, want one of each node and window", len(batch.Samples))
			}
			for _, sample := range batch.Samples {
				want := evaluationTime().Add(-20 * time.Second)
				if sample.Node == "w2" {
					want = evaluationTime().Add(-5250 * time.Millisecond)
				}
				if !sample.End.Equal(want) {
					t.Errorf("the window of %s over %v ends at %v, want %v", sample.Node, sample.Window, sample.End, want)
				}
			}
			// A pod that started on w1 40 s before the query has 20 s in samples, and not 40 s.
			started := evaluationTime().Add(-40 * time.Second)
			if covered := ends(batch.Samples)["w1"].Sub(started); covered != 20*time.Second {
				t.Errorf("the window covers %v of the pod, want 20s", covered)
			}
			// Whatever the number of windows: one query for the newest samples, four for each window.
			if got := len(srv.asked()); got != 1+4+4 {
				t.Errorf("%d queries, want 9", got)
			}
		})
	}
}

func TestFetch_EndFallsBack(t *testing.T) {
	for _, tt := range []struct {
		name   string
		newest func(http.ResponseWriter, *http.Request)
		// clock is how far our clock is ahead of the server's.
		clock time.Duration
		// want is the end of the window of w1 and w2, relative to the evaluation.
		want1, want2 time.Duration
	}{
		{"the query fails", status(http.StatusInternalServerError, "out of memory"), time.Second, 0, 0},
		{"the query is refused", status(http.StatusUnprocessableEntity, `{"status":"error","errorType":"execution","error":"too many `+
			`series"}`), time.Second, 0, 0},
		{"no series", vector(), time.Second, 0, 0},
		{"a node without a series", vector(at("w2", "1699999980")), time.Second, 0, -20 * time.Second},
		{"no number", vector(at("w1", "NaN"), at("w2", "+Inf")), time.Second, 0, 0},
		{"no time", vector(at("w1", "0"), at("w2", "-5")), time.Second, 0, 0},
		{"a sample after the evaluation", vector(at("w1", "1700000003"), at("w2", "1699999999")), 10 * time.Second, 0, -time.Second},
		{"our clock is behind the sample", vector(at("w1", "1699999980"), at("w2", "1699999930")), -time.Minute, -time.Minute,
			-70 * time.Second},
		{"the newest of several series", vector(at("w1", "1699999950"), at("w1:9100", "1699999980"), at("w2", "1699999980")), time.Second,
			-20 * time.Second, -20 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := newServer(t, rule{"", vector(at("w1", "0.5"), at("w2", "0.5"))})
			srv.newest = tt.newest
			s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.NodeExporter}, twoNodes()...)
			s.clock = testingclock.NewFakePassiveClock(evaluationTime().Add(tt.clock))
			got := ends(fetch(t, s))
			for node, want := range map[string]time.Duration{"w1": tt.want1, "w2": tt.want2} {
				if end := got[node].Sub(evaluationTime()); end != want {
					t.Errorf("the window of %s ends %v after the evaluation, want %v", node, end, want)
				}
			}
		})
	}
}

func TestFetch_FailedNewestSampleIsLoggedOnce(t *testing.T) {
	srv := newServer(t, rule{"", vector(at("w1", "0.5"))})
	srv.newest = status(http.StatusInternalServerError, "out of memory")
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.NodeExporter}, newNode("w1", "10.0.0.1"))
	var log logged
	for range 2 {
		if _, err := s.Fetch(log.context(t), source.Request{Windows: []time.Duration{window}}); err != nil {
			t.Fatal(err)
		}
	}
	lines := log.take()
	if len(lines) != 1 || !strings.Contains(lines[0], "time of the newest sample of cpu (dialect NodeExporter)") {
		t.Errorf("want one line in two refreshes that names the query, got %q", lines)
	}
	// The error of a failed refresh names the failed means, not this query.
	srv.setRules(rule{"", status(http.StatusInternalServerError, "out of memory")})
	_, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window}})
	check.Error(t, err, "mean of cpu over 5m", "and 3 more")
}

func TestFetch_NewestSampleOfOwnQueries(t *testing.T) {
	const expression = `avg(my_cpu{w="$window"})`
	for _, tt := range []struct {
		name        string
		cpu, memory string
		dialect     promql.Dialect
		want        string
	}{
		{"a selector", `my:cpu{w="$window"}`, "my:memory", promql.NodeExporter, "timestamp(my:cpu{w=\"5m\"}\n)"},
		{"a selector with a comment", "my:cpu # recorded", "my:memory", promql.NodeExporter, "timestamp(my:cpu # recorded\n)"},
		{"an expression beside a selector", expression, "my:memory", promql.NodeExporter, "timestamp(my:memory\n)"},
		{"an expression beside the dialect", expression, "", promql.Kubelet,
			"max by (node, " + targets + ") (timestamp(node_memory_working_set_bytes))"},
		{"the dialect beside an expression", "", expression, promql.Kubelet,
			"max by (node, " + targets + ") (timestamp(node_cpu_usage_seconds_total))"},
		{"expressions only", expression, "1 - my_memory", promql.NodeExporter, ""},
		{"syntax that is not PromQL", "rate(my_cpu)", "my_memory if my_cpu", promql.NodeExporter, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := newServer(t, rule{"", vector(element{`"node":"w1"`, "0.5"})})
			srv.newest = vector(element{`"node":"w1"`, "1699999980"})
			s := newTestSource(t,
				Config{Address: srv.URL, Dialect: tt.dialect, CPUQuery: tt.cpu, MemoryQuery: tt.memory, NodeLabels: []string{"node"}},
				newNode("w1", "10.0.0.1"))
			samples := fetch(t, s)
			newest := slices.DeleteFunc(srv.asked(), func(promql string) bool { return !isNewestSample(promql) })
			want, wantEnd := []string{tt.want}, evaluationTime().Add(-20*time.Second)
			if tt.want == "" {
				want, wantEnd = nil, evaluationTime()
			}
			if !slices.Equal(newest, want) {
				t.Errorf("asked %q for the newest samples, want %q", newest, want)
			}
			if end := samples[0].End; !end.Equal(wantEnd) {
				t.Errorf("the window ends at %v, want %v", end, wantEnd)
			}
		})
	}
}

// The dialect measures only the resource without a custom query. Its newest sample is 20 s older than the evaluation.
func TestFetch_EndOfOwnQueries(t *testing.T) {
	const newest = -20 * time.Second
	for _, tt := range []struct {
		name, cpu, memory string
		// wantCPU and wantMemory are when the windows end, relative to the evaluation.
		wantCPU, wantMemory time.Duration
	}{
		{"an expression", "rate(my_cpu[$window])", "", newest, newest},
		{"an offset", "rate(my_cpu[$window] offset 10m)", "", -10 * time.Minute, newest},
		{"an offset of memory", "", "avg_over_time(my_memory[$window] offset 10m)", newest, -10 * time.Minute},
		{"an offset of a selector", "my:cpu offset 10m", "", -10 * time.Minute, newest},
		{"an offset by the window", "my:cpu offset $window", "", -window, newest},
		{"offsets that differ", "rate(my_cpu[$window] offset 10m)", "my:memory offset 3m", -10 * time.Minute, -3 * time.Minute},
		{"offsets alike", "my:cpu offset 3m", "my:memory offset 3m", -3 * time.Minute, -3 * time.Minute},
		{"the shortest of several offsets", "my:a offset 10m + my:b offset 2m", "", -2 * time.Minute, newest},
		{"an offset beside none", "my:cpu and my:cpu offset 10m", "", newest, newest},
		{"an offset into the future", "max(my:cpu offset -10m)", "", newest, newest},
		{"offsets of a subquery and within it", "max_over_time((my:cpu offset 1m)[$window:1m] offset 10m)", "", -11 * time.Minute,
			newest},
		{"a fixed moment", "my:cpu @ 1699999000", "", -1000 * time.Second, newest},
		{"a fixed moment with an offset", "my:cpu @ 1699999000 offset 100s", "", -1100 * time.Second, newest},
		{"a fixed moment within a subquery", "max_over_time((my:cpu @ 1699999000)[$window:1m] offset 10m)", "", -1000 * time.Second,
			newest},
		{"a fixed moment in the future", "max(my:cpu @ 1800000000)", "", 0, newest},
		{"a moment that no sample can be of", "my:cpu @ -5", "", time.Unix(0, 0).Sub(evaluationTime()), newest},
		{"the end with an offset", "my:cpu @ end() offset 3m", "", -3 * time.Minute, newest},
		{"syntax that is not PromQL", "my:cpu offset 10m if my:up", "", newest, newest},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := newServer(t, rule{"", vector(at("w1", "0.5"))})
			series := `node_cpu_seconds_total{mode="idle"}`
			if tt.cpu != "" {
				series = "node_memory_MemAvailable_bytes"
			}
			srv.newest = onlyFor("max by ("+targets+") (timestamp("+series+"))", vector(at("w1", "1699999980")))
			s := newTestSource(
				t,
				Config{
					Address: srv.URL, Dialect: promql.NodeExporter, CPUQuery: tt.cpu, MemoryQuery: tt.memory, NodeLabels: []string{"instance"},
				},
				newNode("w1", "10.0.0.1"),
			)
			var got load.Stats
			ends, samples := [load.ResourceCount]time.Duration{}, fetch(t, s)
			for _, sample := range samples {
				for r, stat := range sample.Stats {
					if stat.Known {
						got[r], ends[r] = stat, sample.End.Sub(evaluationTime())
					}
				}
			}
			if !got[load.CPU].Known || !got[load.Memory].Known || ends != [...]time.Duration{tt.wantCPU, tt.wantMemory} {
				t.Errorf("windows %v end at %v, want %v and %v", got, ends, tt.wantCPU, tt.wantMemory)
			}
			if want := map[bool]int{true: 1, false: 2}[tt.wantCPU == tt.wantMemory]; len(samples) != want {
				t.Errorf("%d samples, want %d", len(samples), want)
			}
		})
	}
}

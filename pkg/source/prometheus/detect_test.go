package prometheus

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func TestAuto_FirstDialectWithValue(t *testing.T) {
	kubelet := []rule{
		{"node_cpu_usage_seconds_total", vector(at("w1", "2"))},
		{"node_memory_working_set_bytes", vector(at("w1", "8589934592"))},
	}
	refused := rule{
		"node_cpu_seconds_total",
		status(http.StatusUnprocessableEntity,
			`{"status":"error","errorType":"execution","error":"query processing would load too many samples"}`),
	}
	strangers := rule{"node_cpu_seconds_total", vector(at("vm-outside-the-cluster:9100", "0.9"))}
	for name, rules := range map[string][]rule{
		"empty responses are passed over":        kubelet,
		"a refused query is passed over":         append([]rule{refused}, kubelet...),
		"series of no Node are passed over":      append([]rule{strangers}, kubelet...),
		"the rules of kube-prometheus are empty": append([]rule{{"instance:node_cpu", vector()}}, kubelet...),
	} {
		t.Run(name, func(t *testing.T) {
			srv := newServer(t, rules...)
			s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.Auto}, twoNodes()...)
			var log logged
			for range 2 {
				if _, err := s.Fetch(log.context(t), source.Request{Windows: []time.Duration{window}}); err != nil {
					t.Fatalf("Fetch: %v", err)
				}
			}
			check.Equal(t, "dialect", promql.Kubelet, s.dialect)
			// Six dialects tried in order, then twice five queries. Once, the other two are tried for the other node.
			check.Equal(t, "queries, want 18", 6+5+2+5, len(srv.asked()))
			check.Equal(t, "lines say which dialect was taken", 1, countContaining(log.take(), `"dialect"="Kubelet"`))
		})
	}
}

func TestAuto_ShortestWindow(t *testing.T) {
	srv := newServer(t, rule{"[1h", vector()}, rule{"[15m", vector()}, rule{"node_cpu_usage_seconds_total", vector(at("w1", "2"))})
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.Auto}, twoNodes()...)
	batch, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{5 * time.Minute, 15 * time.Minute, time.Hour}})
	check.OK(t, err)
	check.Equal(t, "dialect", promql.Kubelet, s.dialect)
	// Eight dialects over an hour, six over five minutes, one for the newest samples, four for each of three windows, and the last two
	// dialects for the other node.
	check.Equal(t, "queries, want 29", 8+6+1+12+2, len(srv.asked()))
	measured := map[time.Duration]bool{}
	for _, sample := range batch.Samples {
		measured[sample.Window] = sample.Stats[load.CPU].Known
	}
	if !measured[5*time.Minute] {
		t.Errorf("measured over %v, want five minutes", measured)
	}
}

func TestAuto_DetectsAgain(t *testing.T) {
	srv := newServer(t, nodeExporter(vector(at("w1", "0.25")), vector(), vector(at("w1", "0.5")), vector())...)
	s := newTestSource(t, Config{Address: srv.URL}, twoNodes()...)
	fetch(t, s)
	check.Require(t, "dialect", promql.NodeExporter, s.dialect)

	// The exporter goes and the rules come: the same Fetch returns their values.
	srv.setRules(rule{"instance:node_cpu", vector(at("w1", "0.3"))})
	want := []load.Sample{sample("w1", known(0.3, 0.3), load.Stat{})}
	check.Equal(t, "samples", want, fetch(t, s), equateValues())

	// A server that fails says nothing about dialects.
	srv.setRules(rule{"", status(http.StatusBadGateway, "no upstream")})
	if _, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window}}); err == nil ||
		s.dialect != promql.KubePrometheus {
		t.Errorf("error %v, dialect %q; want an error and KubePrometheus kept", err, s.dialect)
	}

	srv.setRules()
	_, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window}})
	check.Error(t, err, "no series", "NodeExporter", "KubePrometheus", "Kubelet", "cAdvisor", "set dialect, queries or nodeLabels",
		srv.URL)

	srv.setRules(nodeExporter(vector(at("w1", "0.25")), vector(), vector(), vector())...)
	fetch(t, s)
	check.Equal(t, "dialect", promql.NodeExporter, s.dialect)
}

func TestAuto_CPUGone(t *testing.T) {
	rest := []rule{
		{"stddev", vector()}, {"node_memory_MemAvailable_bytes", vector(at("w1", "0.5"))}, {"instance:node_cpu", vector(at("w1", "0.75"))},
	}
	srv := newServer(t, append(rest, rule{"node_cpu_seconds_total", vector(at("w1", "0.5"))})...)
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.Auto}, twoNodes()...)
	check.Require(t, "cpu", 0.5, fetch(t, s)[0].Stats[load.CPU].Mean)
	srv.setRules(rest...)
	check.Equal(t, "cpu once the first dialect has none", 0.75, fetch(t, s)[0].Stats[load.CPU].Mean)
}

func TestAuto_TwoOwnQueriesNeedNoDialect(t *testing.T) {
	srv := newServer(t, rule{"my_cpu", vector(at("w1", "0.3"))}, rule{"my_memory", vector(at("w1", "0.4"))})
	s := newTestSource(t, Config{Address: srv.URL, CPUQuery: "my_cpu", MemoryQuery: "my_memory"}, twoNodes()...)
	fetch(t, s)
	if got := len(srv.asked()); got != 5 {
		t.Errorf("%d queries, want 5: %q", got, srv.asked())
	}
}

func TestAuto_NoDialectKeepsOwnQuery(t *testing.T) {
	srv := newServer(t, rule{"my_cpu", vector(at("w1", "0.3"))})
	s := newTestSource(t, Config{Address: srv.URL, CPUQuery: "my_cpu"}, twoNodes()...)
	want := []load.Sample{sample("w1", known(0.3, 0.3), load.Stat{})}
	check.Equal(t, "samples", want, fetch(t, s), equateValues())
}

// A pod that exposes node_exporter's series for some nodes does not take the dialect from a kubelet that measures five.
func TestAuto_SeriesOfFewNodesTakeNoDialect(t *testing.T) {
	var scraped, pushed []element
	for i := range 5 {
		scraped = append(scraped, at(fmt.Sprintf("n%d", i), "2"))
		pushed = append(pushed, element{fmt.Sprintf(`"node":"n%d"`, i), "2"})
	}
	allNodes := []element{
		{`"node":"n0","instance":"10.8.0.1:80"`, "0.9"}, {`"node":"n1","instance":"10.8.0.1:80"`, "0.9"},
		{`"node":"n2","instance":"10.8.0.1:80"`, "0.9"}, {`"node":"n3","instance":"10.8.0.1:80"`, "0.9"},
		{`"node":"n4","instance":"10.8.0.1:80"`, "0.9"},
	}
	var tooMany []element
	for i := range 4200 { // the bound for five nodes is 4,136
		tooMany = append(tooMany, element{fmt.Sprintf(`"instance":"n0","hostname":"h%d"`, i), "0.9"})
	}
	for _, tt := range []struct {
		name            string
		kubelet, forged []element
	}{
		{"too many series", scraped, tooMany},
		{"its node", scraped, []element{at("n0", "0.9")}},
		// The instance is the pod's address, on no node that it names.
		{"all nodes", scraped, allNodes},
		{"its node, beside series without a target", pushed, []element{at("n0", "0.9")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := newServer(t, rule{"node_cpu_seconds_total", vector(tt.forged...)}, rule{"node_cpu_usage_seconds_total", vector(tt.kubelet...)})
			s := newTestSource(t, Config{Address: srv.URL}, manyNodes(5)...)
			if samples := fetch(t, s); len(samples) != 5 || samples[0].Stats[load.CPU].Mean != 0.25 {
				t.Errorf("samples %v, want five with 2 of 8 cores", samples)
			}
			check.Equal(t, "dialect", promql.Kubelet, s.dialect)
		})
	}
}

// TestAuto_StraySeries has the series of five kubelets absent for a while. Meanwhile a tenant's pod exposes those of node_exporter.
func TestAuto_StraySeries(t *testing.T) {
	named := func(count int, value string) (all []element) {
		for i := range count {
			all = append(all, at(fmt.Sprintf("n%d", i), value))
		}
		return all
	}
	var claimed []element
	for i := range 5 {
		claimed = append(claimed, element{fmt.Sprintf(`"node":"n%d","instance":"10.8.0.1:80"`, i), "0.9"})
	}
	exporter := func(of ...element) rule { return rule{"node_cpu_seconds_total", vector(of...)} }
	kubelets := rule{"node_cpu_usage_seconds_total", vector(named(5, "2")...)}
	// step is a refresh.
	type step struct {
		rules []rule
		// later is the time since the refresh before, nodes the number of nodes.
		later time.Duration
		nodes int
		// samples and dialect are expected; 0 for an error.
		samples int
		dialect promql.Dialect
	}
	start := step{[]rule{kubelets}, 0, 5, 5, promql.Kubelet}
	for name, steps := range map[string][]step{
		// Other nodes keep their last load until the kubelets are back.
		"on its node": {
			start, {[]rule{exporter(named(1, "0.9")...)}, time.Minute, 5, 1, promql.NodeExporter},
			{[]rule{exporter(named(1, "0.9")...), kubelets}, time.Minute, 5, 5, promql.Kubelet},
		},
		"that name all nodes, beside the kubelets": {start, {[]rule{exporter(claimed...), kubelets}, time.Minute, 5, 5, promql.Kubelet}},
		"after a refresh without any": {
			start, {nil, time.Minute, 5, 0, ""}, {[]rule{exporter(named(2, "0.9")...), kubelets}, time.Minute, 5, 5, promql.Kubelet},
		},
		// These are honest changes.
		"of the same kubelets on one node, after a refresh without any": {
			start, {nil, time.Minute, 5, 0, ""},
			{[]rule{{"node_cpu_usage_seconds_total", vector(named(1, "2")...)}}, time.Minute, 5, 1, promql.Kubelet},
		},
		// All nodes are scraped at one address: it shows the target of one node, and of several none.
		"of the same kubelets behind one address, after a refresh without any": {
			{[]rule{{"node_cpu_usage_seconds_total", vector(element{`"node":"n0","instance":"n0:10250"`, "2"})}}, 0, 1, 1, promql.Kubelet},
			{nil, time.Minute, 2, 0, ""},
			{[]rule{{"node_cpu_usage_seconds_total", vector(element{`"node":"n0","instance":"10.8.0.1:10250"`, "2"}, element{`"node":"n1","instance":"10.8.0.1:10250"`, "2"})}},
				time.Minute, 2, 2, promql.Kubelet},
		},
		"of an exporter on most nodes":                       {start, {[]rule{exporter(named(3, "0.5")...)}, time.Minute, 5, 3, promql.NodeExporter}},
		"of an exporter on one of the two nodes that remain": {start, {[]rule{exporter(named(1, "0.5")...)}, time.Minute, 2, 1, promql.NodeExporter}},
		"of an exporter on half as many nodes as the few with kubelets": {
			{[]rule{{"node_cpu_usage_seconds_total", vector(named(2, "2")...)}}, 0, 5, 2, promql.Kubelet},
			{[]rule{exporter(named(1, "0.5")...), {"node_cpu_usage_seconds_total", vector(named(2, "2")...)}}, time.Hour, 5, 2, promql.Kubelet},
		},
		"of an exporter beside kubelets that remain on half of the nodes": {
			start, {[]rule{exporter(named(5, "0.5")...), {"node_cpu_usage_seconds_total", vector(named(3, "2")...)}}, time.Minute, 5, 3, promql.Kubelet},
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv := newServer(t)
			clock := testingclock.NewFakePassiveClock(evaluationTime().Add(time.Second))
			nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
			s := check.Value(New(complete(Config{Address: srv.URL}), corelisters.NewNodeLister(nodes), clock))(t)
			t.Cleanup(func() { _ = s.Close() })
			for i, step := range steps {
				clock.SetTime(clock.Now().Add(step.later))
				var present []any
				for _, node := range manyNodes(step.nodes) {
					present = append(present, node)
				}
				check.OK(t, nodes.Replace(present, ""))
				srv.setRules(step.rules...)
				before := len(srv.asked())
				batch, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window}})
				if len(batch.Samples) != step.samples || (err == nil) != (step.samples > 0) || s.dialect != step.dialect {
					t.Fatalf("refresh %d: %d samples, dialect %q, %v; want %d and %q", i, len(batch.Samples), s.dialect, err,
						step.samples, step.dialect)
				}
				// Five queries, the eight dialects, five queries with the dialect found, and five with dialects of further nodes.
				if asked := len(srv.asked()) - before; asked > 5+8+5+5 {
					t.Errorf("refresh %d: %d queries, want at most 23", i, asked)
				}
			}
		})
	}
}

// TestAuto_FewNodes has half as many nodes measured as would end the search. It costs eight queries a refresh.
func TestAuto_FewNodes(t *testing.T) {
	srv := newServer(t, rule{"node_cpu_seconds_total", vector(at("n0", "0.5"))})
	s := newTestSource(t, Config{Address: srv.URL}, manyNodes(4)...)
	for i, want := range []int{8 + 5, 5 + 8, 5 + 8} {
		before := len(srv.asked())
		fetch(t, s)
		check.Equal(t, fmt.Sprintf("refresh %d: queries", i), want, len(srv.asked())-before)
	}
}

// TestAuto_FurtherDialect has one node of four measured by kubelets alone. The node keeps its dialect for a while after its series are
// gone, and a server that refuses the longer queries answers those of the first dialect.
func TestAuto_FurtherDialect(t *testing.T) {
	named := func(node, dialect, value string) element {
		return element{fmt.Sprintf(`"node":%q,"plimsoll_dialect":%q`, node, dialect), value}
	}
	exporters := []element{named("n0", "", "0.5"), named("n1", "", "0.5"), named("n2", "", "0.5")}
	answer := func(further ...element) []rule {
		return []rule{
			{"memory", vector()}, {"stddev", vector()}, {"plimsoll_dialect", vector(append(slices.Clone(exporters), further...)...)},
			{"node_cpu_seconds_total", vector(exporters...)}, {"node_cpu_usage_seconds_total", vector(named("n3", "", "2"))},
		}
	}
	srv := newServer(t, answer(named("n3", "Kubelet", "2"))...)
	s := newTestSource(t, Config{Address: srv.URL, NodeLabels: []string{"node"}}, manyNodes(4)...)
	cpu := func() map[string]float64 {
		t.Helper()
		values := map[string]float64{}
		for _, sample := range fetch(t, s) {
			values[sample.Node] = sample.Stats[load.CPU].Mean
		}
		return values
	}
	// 2 of 8 cores
	all := map[string]float64{"n0": 0.5, "n1": 0.5, "n2": 0.5, "n3": 0.25}
	check.Equal(t, "cpu", all, cpu())
	check.Equal(t, "nodes of further dialects", map[string][]string{string(promql.Kubelet): {"n3"}}, s.Diagnosis().Further)
	// The exporter comes to the node: the kubelet's load stays the node's.
	exporters = append(exporters, named("n3", "", "0.75"))
	srv.setRules(answer(named("n3", "Kubelet", "4"))...)
	all["n3"] = 0.5
	check.Equal(t, "cpu beside an exporter", all, cpu())
	// The kubelet's series go: after three refreshes, the exporter's count.
	srv.setRules(answer()...)
	for range patience {
		check.Equal(t, "nodes without the kubelet's series", 3, len(cpu()))
	}
	all["n3"] = 0.75
	check.Equal(t, "cpu by the exporter", all, cpu())
	refuse := func() {
		srv.setRules(append([]rule{{"plimsoll_dialect", status(http.StatusServiceUnavailable,
			`{"status":"error","errorType":"timeout","error":"query timed out"}`)}}, answer()...)...)
	}
	refuse()
	check.Equal(t, "cpu without further dialects", all, cpu())

	// Once in a while, a node may return to the first dialect.
	exporters = exporters[:3]
	srv.setRules(answer(named("n3", "Kubelet", "2"))...)
	s = newTestSource(t, Config{Address: srv.URL, NodeLabels: []string{"node"}}, manyNodes(4)...)
	all["n3"] = 0.25
	check.Equal(t, "cpu", all, cpu())
	// A query that fails once, even at a look, costs the node one refresh.
	for _, fetches := range []int{2, fetchesPerLook} {
		refuse()
		s.fetches = fetches
		check.Equal(t, "nodes while the server refuses", 3, len(cpu()))
		srv.setRules(answer(named("n3", "Kubelet", "2"))...)
		check.Equal(t, "cpu at the next refresh", all, cpu())
	}
	for range patience {
		refuse()
		check.Equal(t, "nodes while the server refuses for long", 3, len(cpu()))
	}
	check.Equal(t, "further dialects", 0, len(s.others))
	srv.setRules(answer(named("n3", "Kubelet", "2"))...)
	s.fetches = fetchesPerLook
	check.Equal(t, "cpu after the next look", all, cpu())
	exporters = append(exporters, named("n3", "", "0.75"))
	srv.setRules(answer(named("n3", "Kubelet", "2"))...)
	for s.fetches < fetchesPerLook {
		check.Equal(t, "cpu while the node keeps its dialect", all, cpu())
	}
	all["n3"] = 0.75
	check.Equal(t, "cpu after the return", all, cpu())
}

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
			batch := check.Value(s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window, 3 * window}}))(t)
			check.Require(t, "samples, want one of each node and window", 4, len(batch.Samples))
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
			check.Equal(t, "what the window covers of the pod", 20*time.Second, ends(batch.Samples)["w1"].Sub(started))
			// Whatever the number of windows: one query for the newest samples, four for each window.
			check.Equal(t, "queries, want 9", 1+4+4, len(srv.asked()))
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
		{"the query is refused", status(http.StatusUnprocessableEntity, `{"status":"error","errorType":"execution","error":"too many `+`series"}`), time.Second, 0, 0},
		{"no series", vector(), time.Second, 0, 0},
		{"a node without a series", vector(at("w2", "1699999980")), time.Second, 0, -20 * time.Second},
		{"no number", vector(at("w1", "NaN"), at("w2", "+Inf")), time.Second, 0, 0},
		{"no time", vector(at("w1", "0"), at("w2", "-5")), time.Second, 0, 0},
		{"a sample after the evaluation", vector(at("w1", "1700000003"), at("w2", "1699999999")), 10 * time.Second, 0, -time.Second},
		{"our clock is behind the sample", vector(at("w1", "1699999980"), at("w2", "1699999930")), -time.Minute, -80 * time.Second, -130 * time.Second},
		{"the newest of several series", vector(at("w1", "1699999950"), at("w1:9100", "1699999980"), at("w2", "1699999980")), time.Second, -20 * time.Second, -20 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := newServer(t, rule{"", vector(at("w1", "0.5"), at("w2", "0.5"))})
			srv.newest = tt.newest
			s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.NodeExporter}, twoNodes()...)
			s.clock = testingclock.NewFakePassiveClock(evaluationTime().Add(tt.clock))
			got := ends(fetch(t, s))
			for node, want := range map[string]time.Duration{"w1": tt.want1, "w2": tt.want2} {
				check.Equal(t, fmt.Sprintf("the window of %s ends after the evaluation", node), want, got[node].Sub(evaluationTime()))
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
		check.Value(s.Fetch(log.context(t), source.Request{Windows: []time.Duration{window}}))(t)
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
		undated     bool
	}{
		{"a selector", `my:cpu{w="$window"}`, "my:memory", promql.NodeExporter, "timestamp(my:cpu{w=\"5m\"}\n)", false},
		{"a selector with a comment", "my:cpu # recorded", "my:memory", promql.NodeExporter, "timestamp(my:cpu # recorded\n)", false},
		{"an expression beside a selector", expression, "my:memory", promql.NodeExporter, "timestamp(my:memory\n)", false},
		{"an expression beside the dialect", expression, "", promql.Kubelet, "max by (node, " + targets + ") (timestamp(node_memory_working_set_bytes))", false},
		{"the dialect beside an expression", "", expression, promql.Kubelet, "max by (node, " + targets + ") (timestamp(node_cpu_usage_seconds_total))", false},
		{"an offset beside a selector", "my:cpu offset 10m", "my:memory", promql.NodeExporter, "timestamp(my:memory\n)", false},
		{"a fixed moment beside a selector", "my:cpu @ 1699999000", "my:memory", promql.NodeExporter, "timestamp(my:memory\n)", false},
		{"expressions only", expression, "1 - my_memory", promql.NodeExporter, "", false},
		{"syntax that is not PromQL", "rate(my_cpu)", "my_memory if my_cpu", promql.NodeExporter, "", false},
		{"an expression beside a dialect without samples of the node", expression, "", promql.Kubelet, "max by (node, " + targets + ") (timestamp(node_memory_working_set_bytes))", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := newServer(t, rule{"", vector(element{`"node":"w1"`, "0.5"})})
			srv.newest, srv.behind = vector(element{`"node":"w1"`, "1699999980"}), 30 // as VictoriaMetrics
			if tt.undated {
				srv.newest = vector()
			}
			s := newTestSource(t,
				Config{Address: srv.URL, Dialect: tt.dialect, CPUQuery: tt.cpu, MemoryQuery: tt.memory, NodeLabels: []string{"node"}},
				newNode("w1", "10.0.0.1"))
			samples := fetch(t, s)
			newest := slices.DeleteFunc(srv.asked(), func(promql string) bool { return !isNewestSample(promql) })
			want, wantEnd := []string{tt.want}, evaluationTime().Add(-20*time.Second)
			if tt.want == "" {
				want = nil
			}
			if tt.want == "" || tt.undated {
				wantEnd = evaluationTime().Add(-30 * time.Second)
			}
			check.Equal(t, "asked for the newest samples", want, newest, cmpopts.EquateEmpty())
			if end := samples[0].End; !end.Equal(wantEnd) {
				t.Errorf("the window ends at %v, want %v", end, wantEnd)
			}
		})
	}
}

const day = 24 * time.Hour

// Each quantile of each resource takes one query. Its value is a sample of its own beside the means.
func TestFetch_Quantiles(t *testing.T) {
	srv := newServer(t,
		rule{"quantile_over_time(0.95, (sum", vector(at("w1", "0.8"), at("w2", "0.6"))},
		rule{"quantile_over_time(0.05, node_memory", vector(at("w1", "0.7"))},
		rule{"quantile_over_time(1, (sum", vector(at("w1", "0.9"))},
		rule{"stddev_over_time", vector()},
		rule{"node_cpu_seconds_total", vector(at("w1", "0.25"))},
		rule{"avg_over_time(node_memory", vector(at("w1", "0.5"))},
	)
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.NodeExporter}, twoNodes()...)
	p95, maximum := load.Quantile{Window: day, Fraction: 0.95}, load.Quantile{Window: time.Hour, Fraction: 1}
	batch, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window}, Quantiles: []load.Quantile{p95, maximum}})
	check.OK(t, err)
	quantile := func(node string, q load.Quantile, span time.Duration, cpu, memory float64) load.Sample {
		sample := load.Sample{Node: node, Window: q.Window, Fraction: q.Fraction, End: evaluationTime()}
		for r, value := range []float64{cpu, memory} {
			if value > 0 {
				sample.Stats[r] = load.Stat{Mean: value, StdDev: math.NaN(), Span: span, Known: true}
			}
		}
		return sample
	}
	want := []load.Sample{
		sample("w1", meanOnly(0.25), meanOnly(0.5)), quantile("w1", maximum, 2*time.Minute, 0.9, 0),
		quantile("w1", p95, 5*time.Minute, 0.8, 0.7), quantile("w2", p95, 5*time.Minute, 0.6, 0),
	}
	slices.SortFunc(batch.Samples, func(a, b load.Sample) int {
		return strings.Compare(a.Node+a.Window.String(), b.Node+b.Window.String())
	})
	slices.SortFunc(want, func(a, b load.Sample) int { return strings.Compare(a.Node+a.Window.String(), b.Node+b.Window.String()) })
	check.Equal(t, "result", want, batch.Samples, equateValues())
	// The time of the newest samples; two means and two deviations; two for each quantile.
	if asked := srv.asked(); len(asked) != 9 {
		t.Errorf("%d queries, want 9:\n%s", len(asked), strings.Join(asked, "\n"))
	}
}

// A reader of quantiles alone finds the dialect too, by a short window.
func TestFetch_QuantilesAlone(t *testing.T) {
	srv := newServer(t, rule{"quantile_over_time(0.95, (max", vector(at("w1", "4"))},
		rule{"rate(node_cpu_usage_seconds_total[5m]", vector(at("w1", "2"))})
	s := newTestSource(t, Config{Address: srv.URL}, twoNodes()...)
	batch := check.Value(s.Fetch(t.Context(), source.Request{Quantiles: []load.Quantile{{Window: day, Fraction: 0.95}}}))(t)
	// 4 of 8 cores.
	if len(batch.Samples) != 1 || batch.Samples[0].Node != "w1" || batch.Samples[0].Fraction != 0.95 ||
		batch.Samples[0].Stats[load.CPU].Mean != 0.5 {
		t.Errorf("samples %+v, want the quantile of w1, 0.5", batch.Samples)
	}
	for _, asked := range srv.asked() {
		check.Lacks(t, asked, "rate(node_cpu_usage_seconds_total[1d]")
	}
}

// An error names the quantile.
func TestFetch_QuantileFails(t *testing.T) {
	srv := newServer(
		t,
		rule{"quantile_over_time", status(422, `{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory"}`)},
	)
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.NodeExporter}, twoNodes()...)
	_, err := s.Fetch(t.Context(), source.Request{Quantiles: []load.Quantile{{Window: day, Fraction: 0.95}}})
	check.Error(t, err, "0.95-quantile of cpu over 1d (dialect NodeExporter)", "too many samples")
}

package prometheus

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	testingclock "k8s.io/utils/clock/testing"

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
			if s.dialect != promql.Kubelet {
				t.Errorf("took %q, want Kubelet", s.dialect)
			}
			// Three dialects tried in order, then twice five queries.
			if got := len(srv.asked()); got != 3+5+5 {
				t.Errorf("%d queries, want 13", got)
			}
			if got := countContaining(log.take(), `"dialect"="Kubelet"`); got != 1 {
				t.Errorf("%d lines say which dialect was taken, want 1", got)
			}
		})
	}
}

func TestAuto_ShortestWindow(t *testing.T) {
	srv := newServer(t, rule{"[1h", vector()}, rule{"[15m", vector()}, rule{"node_cpu_usage_seconds_total", vector(at("w1", "2"))})
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.Auto}, twoNodes()...)
	batch, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{5 * time.Minute, 15 * time.Minute, time.Hour}})
	if err != nil {
		t.Fatalf("Fetch: %v", err)
	}
	if s.dialect != promql.Kubelet {
		t.Errorf("took %q, want Kubelet", s.dialect)
	}
	// Four dialects over an hour, three over five minutes, one for the newest samples, four for each of three windows.
	if got := len(srv.asked()); got != 4+3+1+12 {
		t.Errorf("%d queries, want 20", got)
	}
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
	if s.dialect != promql.NodeExporter {
		t.Fatalf("took %q, want NodeExporter", s.dialect)
	}

	// The exporter goes and the rules come: the same Fetch returns their values.
	srv.setRules(rule{"instance:node_cpu", vector(at("w1", "0.3"))})
	want := []load.Sample{sample("w1", known(0.3, 0.3), load.Stat{})}
	if diff := cmp.Diff(want, fetch(t, s), equateValues()); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}

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
	if s.dialect != promql.NodeExporter {
		t.Errorf("took %q, want NodeExporter", s.dialect)
	}
}

func TestAuto_CPUGone(t *testing.T) {
	var gone atomic.Bool
	nodeExporter := func() string {
		if gone.Load() {
			return vectorText()
		}
		return vectorText(at("w1", "0.5"))
	}
	srv := newServer(t,
		rule{"stddev", vector()},
		rule{"node_cpu_seconds_total", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, nodeExporter()) }},
		rule{"node_memory_MemAvailable_bytes", vector(at("w1", "0.5"))},
		rule{"instance:node_cpu", vector(at("w1", "0.75"))},
		rule{"", vector()},
	)
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.Auto}, twoNodes()...)
	if got := fetch(t, s)[0].Stats[load.CPU].Mean; got != 0.5 {
		t.Fatalf("cpu %v, want 0.5", got)
	}
	gone.Store(true)
	if got := fetch(t, s)[0].Stats[load.CPU].Mean; got != 0.75 {
		t.Errorf("cpu %v once the first dialect has none, want 0.75", got)
	}
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
	if diff := cmp.Diff(want, fetch(t, s), equateValues()); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
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
			if s.dialect != promql.Kubelet {
				t.Errorf("took %q, want Kubelet", s.dialect)
			}
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
		"that name all nodes, beside the kubelets": {
			start, {[]rule{exporter(claimed...), kubelets}, time.Minute, 5, 5, promql.Kubelet},
		},
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
			{[]rule{{"node_cpu_usage_seconds_total", vector(
				element{`"node":"n0","instance":"10.8.0.1:10250"`, "2"}, element{`"node":"n1","instance":"10.8.0.1:10250"`, "2"})}},
				time.Minute, 2, 2, promql.Kubelet},
		},
		"of an exporter on most nodes": {start, {[]rule{exporter(named(3, "0.5")...)}, time.Minute, 5, 3, promql.NodeExporter}},
		"of an exporter on one of the two nodes that remain": {
			start, {[]rule{exporter(named(1, "0.5")...)}, time.Minute, 2, 1, promql.NodeExporter},
		},
		"of an exporter on half as many nodes as the few with kubelets": {
			{[]rule{{"node_cpu_usage_seconds_total", vector(named(2, "2")...)}}, 0, 5, 2, promql.Kubelet},
			{[]rule{exporter(named(1, "0.5")...), {"node_cpu_usage_seconds_total", vector(named(2, "2")...)}}, time.Hour, 5, 2, promql.Kubelet},
		},
		"of an exporter beside kubelets that remain on half of the nodes": {
			start, {[]rule{exporter(named(5, "0.5")...), {"node_cpu_usage_seconds_total", vector(named(3, "2")...)}},
				time.Minute, 5, 3, promql.Kubelet},
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv := newServer(t)
			clock := testingclock.NewFakePassiveClock(evaluationTime().Add(time.Second))
			nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
			s, err := New(complete(Config{Address: srv.URL}), corelisters.NewNodeLister(nodes), clock)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			for i, step := range steps {
				clock.SetTime(clock.Now().Add(step.later))
				var present []any
				for _, node := range manyNodes(step.nodes) {
					present = append(present, node)
				}
				if err := nodes.Replace(present, ""); err != nil {
					t.Fatal(err)
				}
				srv.setRules(step.rules...)
				before := len(srv.asked())
				batch, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window}})
				if len(batch.Samples) != step.samples || (err == nil) != (step.samples > 0) || s.dialect != step.dialect {
					t.Fatalf("refresh %d: %d samples, dialect %q, %v; want %d and %q", i, len(batch.Samples), s.dialect, err,
						step.samples, step.dialect)
				}
				// Five queries, the four dialects, and five queries with the dialect found.
				if asked := len(srv.asked()) - before; asked > 5+4+5 {
					t.Errorf("refresh %d: %d queries, want at most 14", i, asked)
				}
			}
		})
	}
}

// TestAuto_FewNodes has half as many nodes measured as would end the search. It costs four queries a refresh.
func TestAuto_FewNodes(t *testing.T) {
	srv := newServer(t, rule{"node_cpu_seconds_total", vector(at("n0", "0.5"))})
	s := newTestSource(t, Config{Address: srv.URL}, manyNodes(4)...)
	for i, want := range []int{4 + 5, 5 + 4, 5 + 4} {
		before := len(srv.asked())
		fetch(t, s)
		if asked := len(srv.asked()) - before; asked != want {
			t.Errorf("refresh %d: %d queries, want %d", i, asked, want)
		}
	}
}

package prometheus

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/diagnosis"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
)

func examine(t *testing.T, s *Source) diagnosis.Examination {
	t.Helper()
	request := source.Request{Windows: []time.Duration{window}}
	_, _ = s.Fetch(t.Context(), request) // it may fail: that is what is examined
	e, err := s.Examiner()(t.Context(), request.Windows)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestExamine_Missing(t *testing.T) {
	raw := func(elements ...element) rule { return rule{"node_memory_MemAvailable_bytes", vector(elements...)} }
	for _, tt := range []struct {
		name  string
		rules []rule
		want  diagnosis.Examination
	}{
		{"another label names the nodes", []rule{
			raw(element{`"__name__":"node_memory_MemAvailable_bytes","instance":"exporter-x7","kubernetes_io_hostname":"w1"`, "1"},
				element{`"__name__":"node_memory_MemAvailable_bytes","instance":"exporter-x8","kubernetes_io_hostname":"w2"`, "1"}),
		}, diagnosis.Examination{
			Dialects: []promql.Dialect{promql.NodeExporter}, Labels: []diagnosis.LabelMatch{{Label: "kubernetes_io_hostname", Nodes: 2}},
		}},
		{"nothing at all", nil, diagnosis.Examination{Unnamed: []string{"w1", "w2"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := newServer(t, append(tt.rules, rule{"", vector()})...)
			srv.newest = vector()
			// No query of a mean has a value, because none has a label that names a node.
			s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.Auto}, twoNodes()...)
			if diff := cmp.Diff(tt.want, examine(t, s), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestExamine_LabelsOfSomeNodes(t *testing.T) {
	series := func(host, instance string) element {
		return element{fmt.Sprintf(`"__name__":"node_memory_working_set_bytes","host_name":%q,"instance":%q`, host, instance), "1"}
	}
	srv := newServer(t,
		rule{"stddev", vector()},
		rule{"max by", vector(at("worker-3", "1"))},
		rule{"node_memory_working_set_bytes", vector(
			series("worker-1", "exporter-1"), series("prod-worker-2", "exporter-2"), series("db-7", "exporter-7"), series("x", "worker-3"))},
		rule{"", vector()},
	)
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.Kubelet},
		newNode("worker-1", "10.0.0.1"), newNode("worker-2", "10.0.0.2"), newNode("worker-3", "10.0.0.3"))
	want := diagnosis.Examination{
		Labels: []diagnosis.LabelMatch{{Label: "host_name", Nodes: 1}}, Unnamed: []string{"worker-2"},
		Strays: []string{
			`node_memory_working_set_bytes{host_name="prod-worker-2", instance="exporter-2"}`,
			`node_memory_working_set_bytes{host_name="db-7", instance="exporter-7"}`,
		},
	}
	if diff := cmp.Diff(
		want, examine(t, s), cmpopts.EquateEmpty(), cmpopts.IgnoreFields(diagnosis.Examination{}, "Sampling", "Counted"),
	); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestExamine_Sampling(t *testing.T) {
	const kubelet = "node_memory_working_set_bytes"
	ago := func(instance string, seconds int) element { return at(instance, fmt.Sprint(evaluated-seconds)) }
	srv := newServer(t,
		rule{"min_over_time(timestamp(" + kubelet + ")[20m:30s])", vector(ago("w1", 1210), ago("w2", 70))},
		rule{"min_over_time(timestamp(" + kubelet + ")[10m:15s])", vector(ago("w1", 610), ago("w2", 80))},
		rule{"count_over_time(" + kubelet + "[20m])", vector(at("w1", "80"), at("w2", "9"))},
		rule{"count_over_time(" + kubelet + "[1m15s])", vector(at("w1", "5"), at("w2", "6"))},
		rule{"count_over_time(" + kubelet, vector(at("w1", "20"), at("w2", "9"))},
		rule{"", vector(at("w1", "1"), at("w2", "1"))},
	)
	srv.newest = vector(ago("w1", 5), ago("w2", 10))
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.Kubelet}, twoNodes()...)
	// w1 has 80 samples in twenty minutes: one each 15 s.
	// w2 has been measured for 80 s. Six samples in 75 s are one each 15 s at most.
	want := map[string]diagnosis.Sampling{
		"w1": {Interval: 15 * time.Second, Since: 20 * time.Minute},
		"w2": {Interval: 15 * time.Second, Since: 80 * time.Second},
	}
	if diff := cmp.Diff(want, examine(t, s).Sampling); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestExamine_Young expects the sampling of series that are too young for a mean.
func TestExamine_Young(t *testing.T) {
	const kubelet = "node_memory_working_set_bytes"
	srv := newServer(t,
		rule{"min_over_time(timestamp(" + kubelet, vector(at("w1", fmt.Sprint(evaluated-8)))},
		rule{"count_over_time(" + kubelet, vector(at("w1", "2"))},
		rule{"max by", vector()},
		rule{kubelet, vector(element{`"__name__":"node_memory_working_set_bytes","instance":"w1"`, "1"})},
	)
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.Auto}, newNode("w1", "10.0.0.1"))
	want := diagnosis.Examination{
		Sampling: map[string]diagnosis.Sampling{"w1": {Since: 8 * time.Second}}, Dialects: []promql.Dialect{promql.Kubelet},
	}
	if diff := cmp.Diff(want, examine(t, s), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestExamine_Frozen expects the node whose counters are sampled and do not change. w2 has changes, and w3 is measured for too short.
func TestExamine_Frozen(t *testing.T) {
	ago := func(instance string, seconds int) element { return at(instance, fmt.Sprint(evaluated-seconds)) }
	srv := newServer(t,
		rule{"min_over_time(timestamp(", vector(ago("w1", 610), ago("w2", 610), ago("w3", 70))},
		rule{"changes(node_cpu_usage_seconds_total[5m])", vector(at("w1", "0"), at("w2", "19"), at("w3", "0"))},
		rule{"count_over_time(", vector(at("w1", "20"), at("w2", "20"), at("w3", "5"))},
		rule{"", vector(at("w1", "1"), at("w2", "1"), at("w3", "1"))},
	)
	srv.newest = vector(ago("w1", 5), ago("w2", 5), ago("w3", 5))
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.Kubelet},
		newNode("w1", "10.0.0.1"), newNode("w2", "10.0.0.2"), newNode("w3", "10.0.0.3"))
	x := examine(t, s)
	if diff := cmp.Diff([]string{"w1"}, x.Frozen); diff != "" || !x.Counted {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestExamine_Ahead expects the node with a sample four minutes ahead. The other is ahead by less than clocks differ.
func TestExamine_Ahead(t *testing.T) {
	ahead := func(instance string, seconds int) element { return at(instance, fmt.Sprint(evaluated+seconds)) }
	srv := newServer(t,
		rule{"timestamp(node_memory_working_set_bytes offset -5m)", vector(ahead("w1", 240), ahead("w2", 9))},
		rule{"", vector(at("w1", "1"), at("w2", "1"))},
	)
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.Kubelet}, twoNodes()...)
	x := examine(t, s)
	if diff := cmp.Diff([]string{"w1"}, x.Ahead); diff != "" || x.Lead != 4*time.Minute {
		t.Errorf("lead %v, (-want +got):\n%s", x.Lead, diff)
	}
}

// TestExamine_Behind expects the node whose samples come each 15 s and are older than 90 s. Those of w3 come each five minutes.
func TestExamine_Behind(t *testing.T) {
	ago := func(instance string, seconds int) element { return at(instance, fmt.Sprint(evaluated-seconds)) }
	srv := newServer(t,
		rule{"min_over_time(timestamp(", vector(ago("w1", 1200), ago("w2", 1200), ago("w3", 1200))},
		rule{"count_over_time(node_memory_working_set_bytes[20m])", vector(at("w1", "80"), at("w2", "80"), at("w3", "5"))},
		rule{"offset -5m", vector()},
		rule{"timestamp(node_memory_working_set_bytes)", vector(ago("w1", 91), ago("w2", 90), ago("w3", 299))},
		rule{"", vector(at("w1", "1"), at("w2", "1"), at("w3", "1"))},
	)
	srv.newest = vector(ago("w1", 91), ago("w2", 90), ago("w3", 299))
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.Kubelet},
		newNode("w1", "10.0.0.1"), newNode("w2", "10.0.0.2"), newNode("w3", "10.0.0.3"))
	x := examine(t, s)
	if diff := cmp.Diff([]string{"w1"}, x.Behind); diff != "" || x.Lag != 91*time.Second {
		t.Errorf("lag %v, (-want +got):\n%s", x.Lag, diff)
	}
}

// TestExamine_Down expects the target of the node without load, and no other.
func TestExamine_Down(t *testing.T) {
	down := func(instance string) element {
		return element{fmt.Sprintf(`"__name__":"up","instance":%q,"job":"node"`, instance), "0"}
	}
	srv := newServer(t,
		rule{"up == 0", vector(down("w2:9100"), down("w1:80"), down("db-7:9100"))},
		rule{"max by", vector(at("w1", "1"))},
		rule{"", vector()},
	)
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.Kubelet}, twoNodes()...)
	if diff := cmp.Diff([]string{`up{instance="w2:9100", job="node"}`}, examine(t, s).Down); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// BenchmarkExamine examines 5,000 nodes, none of which has load, because another label names them.
func BenchmarkExamine(b *testing.B) {
	const count = 5000
	nodes, series := make([]*corev1.Node, count), make([]element, count)
	for i := range nodes {
		nodes[i] = newNode(fmt.Sprintf("worker-%04d", i), fmt.Sprintf("10.%d.%d.1", i/256, i%256))
		series[i] = element{fmt.Sprintf(`"__name__":"node_memory_working_set_bytes","job":"kubelet","host":"worker-%04d"`, i), "1"}
	}
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	for _, node := range nodes {
		if err := indexer.Add(node); err != nil {
			b.Fatal(err)
		}
	}
	responses := &server{newest: vector(), rules: []rule{
		{"max by", vector()}, {"min by", vector()}, {"node_memory_working_set_bytes", vector(series...)}, {"", vector()},
	}}
	srv := httptest.NewServer(responses)
	b.Cleanup(srv.Close)
	s, err := New(complete(Config{Address: srv.URL, Dialect: promql.Auto}), corelisters.NewNodeLister(indexer), clock.RealClock{})
	if err != nil {
		b.Fatal(err)
	}
	windows := []time.Duration{window}
	_, _ = s.Fetch(b.Context(), source.Request{Windows: windows}) // it fails: no node has load
	b.ReportAllocs()
	for b.Loop() {
		if e, err := s.Examiner()(b.Context(), windows); err != nil || len(e.Labels) != 1 || e.Labels[0].Nodes != count {
			b.Fatalf("%+v, %v", e.Labels, err)
		}
	}
}

// TestExamine_Clusters expects nodes that series of two clusters name by targets with the same labels. Of two clusters that name as
// many nodes, the one that also names other machines is less likely this one. A rival's targets do not choose.
func TestExamine_Clusters(t *testing.T) {
	of := func(cluster, job, instance string) element {
		return element{fmt.Sprintf(`"cluster":%q,"job":%q,"instance":%q`, cluster, job, instance), "1"}
	}
	honest := []element{of("b", "exporter", "w1"), of("b", "exporter", "w2")}
	for _, tt := range []struct {
		name   string
		series []element
		want   *diagnosis.Clusters
	}{
		{"one", honest, nil},
		{"two", append([]element{of("a", "exporter", "w1"), of("a", "exporter", "w2"), of("a", "exporter", "w9")}, honest...),
			&diagnosis.Clusters{Label: "cluster", Names: []string{"a", "b"}, Nodes: []string{"w1", "w2"}, BestMatch: "b"}},
		{"a rival's", append([]element{of("a", "rival", "w1"), of("a", "rival", "w2")}, honest...), nil},
		{"two, and a rival's", append([]element{of("c", "rival", "w1"), of("c", "rival", "w2"), of("a", "exporter", "w2")}, honest...),
			&diagnosis.Clusters{Label: "cluster", Names: []string{"a", "b"}, Nodes: []string{"w2"}, BestMatch: "b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := newServer(t, rule{"group by", vector(tt.series...)}, rule{"", vector(at("w1", "0.5"), at("w2", "0.5"))})
			s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.Kubelet}, twoNodes()...)
			if diff := cmp.Diff(tt.want, examine(t, s).Clusters); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

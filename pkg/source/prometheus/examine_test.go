package prometheus

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/diagnosis"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func examine(t *testing.T, s *Source) diagnosis.Examination {
	t.Helper()
	request := source.Request{Windows: []time.Duration{window}}
	_, _ = s.Fetch(t.Context(), request) // it may fail: that is what is examined
	return check.Value(s.Examiner()(t.Context(), request.Windows))(t)
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
		}, diagnosis.Examination{Dialects: []promql.Dialect{promql.NodeExporter}, Labels: []diagnosis.LabelMatch{{Label: "kubernetes_io_hostname", Nodes: 2}}}},
		{"nothing at all", nil, diagnosis.Examination{Unnamed: []string{"w1", "w2"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := newServer(t, append(tt.rules, rule{"", vector()})...)
			srv.newest = vector()
			// No query of a mean has a value, because none has a label that names a node.
			s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.Auto}, twoNodes()...)
			check.Equal(t, "result", tt.want, examine(t, s), cmpopts.EquateEmpty())
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
	check.Equal(t, "examine", want, examine(t, s), cmpopts.EquateEmpty(),
		cmpopts.IgnoreFields(diagnosis.Examination{}, "Sampling", "Counted"))
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
	check.Equal(t, "result", want, examine(t, s).Sampling)
}

// TestExamine_Servers has a balancer that sends each connection to the next server. Each scraped at another time.
func TestExamine_Servers(t *testing.T) {
	for servers, want := range map[int]bool{1: false, 2: true} {
		var connections sync.Map
		var count atomic.Int64
		balanced := func(w http.ResponseWriter, r *http.Request) {
			if at := r.FormValue("time"); at != fmt.Sprint(evaluated-299) { // by our clock, a second ahead
				t.Errorf("asked for the time %s", at)
			}
			n, known := connections.LoadOrStore(r.RemoteAddr, count.Load())
			if !known {
				count.Add(1)
			}
			vector(element{"", fmt.Sprint(evaluated - 310 - n.(int64)%int64(servers))})(w, r)
		}
		srv := newServer(t, rule{promql.Scrapes, balanced}, rule{"", vector(at("w1", "1"))})
		s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.Kubelet}, twoNodes()...)
		check.Equal(t, "several servers", want, examine(t, s).Servers)
		check.Equal(t, "connections", int64(6), count.Load())
	}
}

// TestExamine_Young expects the sampling of series that are too young for a mean.
func TestExamine_Young(t *testing.T) {
	const kubelet = "node_memory_working_set_bytes"
	srv := newServer(t,
		rule{"min_over_time(timestamp(" + kubelet, vector(at("w1", fmt.Sprint(evaluated-8)))},
		rule{"count_over_time(" + kubelet, vector(at("w1", "2"))},
		rule{"max by", vector()}, rule{"k8s_", vector()},
		rule{kubelet, vector(element{`"__name__":"node_memory_working_set_bytes","instance":"w1"`, "1"})},
	)
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.Auto}, newNode("w1", "10.0.0.1"))
	want := diagnosis.Examination{Sampling: map[string]diagnosis.Sampling{"w1": {Since: 8 * time.Second}}, Dialects: []promql.Dialect{promql.Kubelet}}
	check.Equal(t, "result", want, examine(t, s), cmpopts.EquateEmpty())
}

// TestDiagnosis_Replaced has a Node whose address a new machine has. The address is the ready Node's.
func TestDiagnosis_Replaced(t *testing.T) {
	gone, fresh := newNode("gone", "10.0.0.1"), newNode("new", "10.0.0.1")
	fresh.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	srv := newServer(t, rule{"", vector(element{`"instance":"10.0.0.1:9100"`, "0.5"})})
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.NodeExporter}, gone, fresh)
	_, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window}})
	check.OK(t, err)
	check.Equal(t, "replaced", []source.Replaced{{Node: "gone", Address: "10.0.0.1", By: "new"}}, s.Diagnosis().Replaced)
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
	check.Equal(t, "result", []string{`up{instance="w2:9100", job="node"}`}, examine(t, s).Down)
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
		check.OK(b, indexer.Add(node))
	}
	responses := &server{newest: vector(), rules: []rule{{"max by", vector()}, {"min by", vector()}, {"node_memory_working_set_bytes", vector(series...)}, {"", vector()}}}
	srv := check.Serve(b, responses)
	s, err := New(complete(Config{Address: srv.URL, Dialect: promql.Auto}), corelisters.NewNodeLister(indexer), clock.RealClock{})
	check.OK(b, err)
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
			check.Equal(t, "result", tt.want, examine(t, s).Clusters)
		})
	}
}

// equateErrors compares errors by their text.
func equateErrors() cmp.Option {
	return cmp.Comparer(func(a, b error) bool {
		return (a == nil) == (b == nil) && (a == nil || a.Error() == b.Error())
	})
}

type textError string

func (e textError) Error() string { return string(e) }

func TestDiagnosis(t *testing.T) {
	warned := `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"node":"w1"},"value":[1700000000,` +
		`"8589934592"]}]},"warnings":["partial"]}`
	srv := newServer(
		t,
		rule{"node_cpu_seconds_total", status(http.StatusUnprocessableEntity, `{"status":"error","errorType":"execution","error":"too many samples"}`)},
		rule{"instance:node_cpu", vector(element{`"node":"gone"`, "0.5"})}, rule{"stddev_over_time", vector()},
		rule{"node_cpu_usage_seconds_total", vector(element{`"node":"w1"`, "2"}, element{`"node":"vm"`, "2"}, element{`"node":"alone"`, "2"})},
		rule{"node_memory_working_set_bytes", body(warned)}, rule{"latency", status(http.StatusBadGateway, "")},
	)
	// Samples of 20 s and of 50 s ago.
	srv.newest = vector(element{`"node":"w1"`, "1699999980"}, element{`"node":"w2"`, "1699999950"})
	s := newTestSource(t, Config{Address: srv.URL, NodeLabels: []string{"node"}}, append(twoNodes(), newNode("w3", "10.0.0.3"))...)
	check.Equal(t, "before the first Fetch", diagnosis.Diagnosis{}, s.Diagnosis(), equateErrors())
	batch := check.Value(s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window}, Metrics: []string{"latency"}}))(t)
	check.Equal(t, "rejected", source.Rejected{load.PartialResponse: 1}, batch.Rejected)
	endpoint := srv.URL + "/api/v1/query"
	want := diagnosis.Diagnosis{
		Endpoint: endpoint,
		Dialect:  promql.Kubelet,
		Tried: []diagnosis.Tried{
			{Dialect: promql.NodeExporter, Err: textError("query refused (execution): too many samples")},
			{Dialect: promql.KubePrometheus, Err: textError(`none of 1 series matches a Node by its nodeLabels; for example {node="gone"}`)},
			{Dialect: promql.OpenShift, Err: textError(`none of 1 series matches a Node by its nodeLabels; for example {node="gone"}`)},
			{Dialect: promql.WindowsExporter, Err: textError("no series")},
			{Dialect: promql.OpenTelemetry, Err: textError("no series")},
		},
		Queries: []diagnosis.QueryDiagnosis{
			{Query: promql.Query{Kind: promql.NewestSample, Resource: load.CPU, Reading: promql.Reading{Dialect: promql.Kubelet}}, Series: 2, Nodes: 2, Highest: 1699999980, HighestNode: "w1"},
			{Query: promql.Query{Kind: promql.Mean, Resource: load.CPU, Window: window, Reading: promql.Reading{Dialect: promql.Kubelet}}, Series: 3, Nodes: 1, Highest: 0.25, HighestNode: "w1"},
			{
				Query: promql.Query{Kind: promql.Mean, Resource: load.Memory, Window: window, Reading: promql.Reading{Dialect: promql.Kubelet}}, Series: 1,
				Nodes: 1, Highest: 0.5, HighestNode: "w1", Warnings: []string{"partial"},
				Partial: textError("a part of the data is missing: partial"),
			},
			{
				Query: promql.Query{Kind: promql.StdDev, Resource: load.CPU, Window: window, Reading: promql.Reading{Dialect: promql.Kubelet}},
				Err:   textError("standard deviation of cpu over 5m (dialect Kubelet): no series"),
			},
			{
				Query: promql.Query{Kind: promql.StdDev, Resource: load.Memory, Window: window, Reading: promql.Reading{Dialect: promql.Kubelet}},
				Err:   textError("standard deviation of memory over 5m (dialect Kubelet): no series"),
			},
			{Query: promql.Query{Kind: promql.NodeMetric}, Err: textError(`metric "latency": GET ` + endpoint + ": status 502 Bad Gateway")},
		},
		NodeCount:          3,
		NodesWithoutSeries: []string{"w2", "w3"},
		UnmatchedSeries:    []string{`{node="alone"}`, `{node="vm"}`},
		SampleAges:         diagnosis.SampleAges{Nodes: 2, Youngest: 20 * time.Second, Oldest: 50 * time.Second},
		Skew:               -time.Second, // our clock is a second ahead
	}
	options := cmp.Options{equateErrors(), cmpopts.EquateEmpty(), cmpopts.IgnoreFields(promql.Query{}, "PromQL", "OverCapacity")}
	check.Equal(t, "result", want, s.Diagnosis(), options)

	// A Fetch that fails is diagnosed too. The clock of the server is a minute ahead.
	srv.setRules(rule{"", vector()})
	s.clock = testingclock.NewFakePassiveClock(evaluationTime().Add(-time.Minute))
	if _, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window}}); err == nil {
		t.Fatal("no error though there is no series")
	}
	got := s.Diagnosis()
	if got.Dialect != "" || len(got.Tried) != len(promql.Dialects()) || got.Undetected == nil {
		t.Errorf("dialect %q, tried %v, because of %v; want none of all that there are, and a reason", got.Dialect, got.Tried,
			got.Undetected)
	}
	if got.Skew != time.Minute || !got.ClocksDiffer {
		t.Errorf("skew %v, different clocks %v; want 1m0s and true", got.Skew, got.ClocksDiffer)
	}
	check.Equal(t, "nodes without series", []string{"w1", "w2", "w3"}, got.NodesWithoutSeries)
}

func TestDiagnosis_NodeMetricsOnly(t *testing.T) {
	srv := newServer(t, rule{"", vector(element{`"node":"w1"`, "1"})})
	s := newTestSource(t, Config{Address: srv.URL}, twoNodes()...)
	check.Value(s.Fetch(t.Context(), source.Request{Metrics: []string{"latency"}}))(t)
	got := s.Diagnosis()
	if len(got.Queries) != 1 || got.Queries[0].PromQL != "latency" || got.SampleAges != (diagnosis.SampleAges{}) ||
		len(got.NodesWithoutSeries) > 0 {
		t.Errorf("got %+v, want one query, no ages, and no nodes that lack load", got)
	}
}

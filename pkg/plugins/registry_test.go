package plugins_test

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/descriptor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/loadthreshold"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/nodemetrics"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/peaks"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/targetloadpacking"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/plugintest"
)

// registryOn returns the factories of all plugins, which read the loads.
func registryOn(loads *plugintest.Loads, register func(...metrics.Registerable)) frameworkruntime.Registry {
	return plugins.NewRegistry(loads, plugintest.Clock(), register)
}

func unregistered(...metrics.Registerable) {}

// kinds are the kinds of the arguments of all plugins that read load.
func kinds() map[string]string {
	return kindsOf(func(d descriptor.Descriptor) bool { return d.Reads != nil })
}

// withoutLoad are the kinds of the arguments of the plugins that read no load.
func withoutLoad() map[string]string {
	return kindsOf(func(d descriptor.Descriptor) bool { return d.Reads == nil })
}

// limiters are those of the plugins that filter.
func limiters() map[string]string {
	return kindsOf(func(d descriptor.Descriptor) bool { return d.Limits(nil).Filters })
}

// scorers are those of the plugins that score every pod by load, and need nothing else to be enabled.
func scorers() map[string]string {
	return kindsOf(func(d descriptor.Descriptor) bool { return d.Reads != nil && !d.Limits(nil).Filters })
}

// kindsOf returns the kinds of the arguments of the plugins that match, by name; empty for a plugin without arguments.
func kindsOf(matches func(descriptor.Descriptor) bool) map[string]string {
	all := map[string]string{}
	for _, d := range plugins.All() {
		kind := d.Name + "Args"
		if !schedulerscheme.Scheme.Recognizes(config.SchemeGroupVersion.WithKind(kind)) {
			kind = ""
		}
		if matches(d) {
			all[d.Name] = kind
		}
	}
	return all
}

// least returns the required arguments of a kind.
func least(kind string) string {
	switch kind {
	case "PeaksArgs":
		return "nodePowerModels: [{k0: 470, k1: -91, k2: -0.07}]"
	case "NodeMetricsArgs":
		return `metricProvider: {type: Prometheus, address: "http://prometheus:9090"}
metrics: [{name: m0, query: m0, prefer: Lower, reject: "> 5"}, {name: m1, query: m1, prefer: Higher, pending: {perPod: 0.01}}, {name: m2, query: m2, prefer: Lower, bounds: {best: 0, worst: 1}}]`
	}
	return ""
}

func build(tb testing.TB, loads *plugintest.Loads, name, args string) minor.ScorePlugin {
	tb.Helper()
	return buildOn(tb, plugintest.NewHandle(), loads, name, args)
}

func buildOn(tb testing.TB, handle minor.Handle, loads *plugintest.Loads, name, args string) minor.ScorePlugin {
	tb.Helper()
	if args == "" {
		args = least(kinds()[name])
	}
	registry := registryOn(loads, unregistered)
	plugin := check.Value(registry[name](tb.Context(), plugintest.Args(tb, kinds()[name], args), handle))(tb)
	return plugin.(minor.ScorePlugin)
}

// buildWithoutLoad builds one of withoutLoad.
func buildWithoutLoad(t *testing.T, registry frameworkruntime.Registry, name string) minor.Plugin {
	t.Helper()
	var args runtime.Object
	if kind := withoutLoad()[name]; kind != "" {
		args = plugintest.Args(t, kind, "")
	}
	return check.Value(registry[name](t.Context(), args, plugintest.NewHandle()))(t)
}

// Every plugin is in the registry under its name.
func TestNewRegistry(t *testing.T) {
	registry := registryOn(plugintest.NewLoads(), unregistered)
	check.Equal(t, "plugins", slices.Sorted(slices.Values(config.PluginNames())), slices.Sorted(maps.Keys(registry)))
	for name := range withoutLoad() {
		if got := buildWithoutLoad(t, registry, name).Name(); got != name {
			t.Errorf("the plugin registered as %s is called %s", name, got)
		}
	}
	for name := range kinds() {
		if got := build(t, plugintest.NewLoads(), name, "").Name(); got != name {
			t.Errorf("the plugin registered as %s is called %s", name, got)
		}
	}
}

// A plugin refuses another plugin's arguments.
func TestNewRegistry_WrongArgs(t *testing.T) {
	registry := registryOn(plugintest.NewLoads(), unregistered)
	for name := range kinds() {
		for _, kind := range kinds() {
			_, err := registry[name](t.Context(), plugintest.Args(t, kind, least(kind)), plugintest.NewHandle())
			if own := kind == kinds()[name]; (err == nil) != own {
				t.Errorf("%s given %s: %v", name, kind, err)
			}
		}
	}
	for name := range withoutLoad() {
		for _, kind := range kinds() {
			if _, err := registry[name](t.Context(), plugintest.Args(t, kind, least(kind)), plugintest.NewHandle()); err == nil {
				t.Errorf("%s takes %s", name, kind)
			}
		}
	}
}

// Profiles keep their own settings.
func TestNewRegistry_Profiles(t *testing.T) {
	p := plugintest.NewLoads()
	p.Measure(map[string]load.NodeLoad{"a": {load.CPU: plugintest.Measurement(0.25, 0)}}, nil)
	first := build(t, p, targetloadpacking.Name, "targetUtilization: 40")
	second := build(t, p, targetloadpacking.Name, "targetUtilization: 50")
	pod, node := st.MakePod().Lim(plugintest.CPU("0")).Obj(), plugintest.Node("a", plugintest.CPU("8"))
	for name, tc := range map[string]struct {
		plugin minor.ScorePlugin
		want   int64
	}{
		"first":  {first, 78},  // 60·25/40 + 40 = 77.5
		"second": {second, 75}, // 50·25/50 + 50
	} {
		check.Equal(t, name+" profile: score", tc.want, plugintest.Scores(t, tc.plugin, pod, node)["a"])
	}
}

// Plugins serve nothing on the default mux.
func TestNewRegistry_DefaultMux(t *testing.T) {
	for name := range kinds() {
		build(t, plugintest.NewLoads(), name, "")
		build(t, plugintest.NewLoads(), name, "")
	}
	for _, path := range []string{"/", "/watcher", "/watcher/health", "/debug/pprof/"} {
		req := check.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil))(t)
		if _, pattern := http.DefaultServeMux.Handler(req); pattern != "" {
			t.Errorf("%s is served by the default mux, as %s", path, pattern)
		}
	}
}

// Every plugin explains the score that it gives before normalization.
func TestExplainer(t *testing.T) {
	loads, nodes := cluster(1, 20)
	for name := range kinds() {
		pl, state, pod := build(t, loads, name, refusing(name)), framework.NewCycleState(), incoming()
		pl.(minor.PreScorePlugin).PreScore(t.Context(), state, pod, nodes)
		explained := pl.(explain.Explainer).Explain(t.Context(), state, pod, nodes[0]).Score()
		if name == loadthreshold.Name { // it scores only where the thresholds are waived
			if above := explained > 100; above == pl.(minor.FilterPlugin).Filter(t.Context(), state, pod, nodes[0]).IsSuccess() {
				t.Errorf("%s: %v hundredths of a percent, and above the line of 1 percent: %v", name, explained, !above)
			}
			continue
		}
		if name == peaks.Name {
			continue // its score is an encoded cost, which has a test of its own
		}
		want := int64(math.Round(explained))
		if score, status := pl.Score(t.Context(), state, pod, nodes[0]); !status.IsSuccess() || score != want {
			t.Errorf("%s: score %d, %v; explained as %v", name, score, status, explained)
		}
	}
}

// A decision logs nothing at default verbosity.
func TestDecision_LogsNothing(t *testing.T) {
	for name := range kinds() {
		for _, loads := range []*plugintest.Loads{plugintest.NewLoads(), loaded(1, 1), loaded(100, 1)} {
			logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.Verbosity(2), ktesting.BufferLogs(true)))
			ctx := klog.NewContext(t.Context(), logger)
			pl, state, pod, scores := build(t, loads, name, ""), framework.NewCycleState(), st.MakePod().Obj(), minor.NodeScoreList{}
			filter, filters := pl.(minor.FilterPlugin)
			if filters {
				pl.(minor.PreFilterPlugin).PreFilter(ctx, state, pod, nil)
			}
			for i := range 100 {
				node := plugintest.Node(fmt.Sprint("node-", i), plugintest.CPUAndMemory("8", "16Gi"))
				if filters {
					filter.Filter(ctx, state, pod, node)
				}
				score, _ := pl.Score(ctx, state, pod, node)
				scores = append(scores, minor.NodeScore{Name: node.Node().Name, Score: score})
			}
			if e := pl.ScoreExtensions(); e != nil {
				e.NormalizeScore(ctx, state, pod, scores)
			}
			check.Equal(t, name+": log of a decision over 100 nodes", "", logger.GetSink().(ktesting.Underlier).GetBuffer().String())
		}
	}
}

// Score allocates nothing per node.
func TestScore_AllocatesNothing(t *testing.T) {
	for name := range scorers() {
		_, ctx := ktesting.NewTestContext(t)
		p, nodes := cluster(1, 20)
		pl, pod, state := build(t, p, name, ""), st.MakePod().Req(plugintest.CPUAndMemory("1", "1Gi")).Obj(), framework.NewCycleState()
		pl.Score(ctx, state, pod, nodes[0]) // the first call pins what the others use
		check.Equal(t, name+": allocations per call of Score", 0,
			testing.AllocsPerRun(100, func() { pl.Score(ctx, state, pod, nodes[0]) }))
	}
}

// Filter allocates nothing for a node that passes.
func TestFilter_AllocatesNothing(t *testing.T) {
	for name := range limiters() {
		for _, args := range []string{"", "statistic: PredictedPeak"} {
			if args != "" && name != loadthreshold.Name {
				continue
			}
			loads, nodes := cluster(1, 20)
			nodes[0].Node().Annotations = map[string]string{loadthreshold.Annotation: "cpu=70,memory=85"}
			pl, state, ctx, pod := build(t, loads, name, args), framework.NewCycleState(), t.Context(), incoming()
			pl.(minor.PreFilterPlugin).PreFilter(ctx, state, pod, nil)
			for what, s := range map[string]fwk.CycleState{"the cycle's state": state, "a clone": state.Clone()} {
				check.Equal(t, name+": passes", true, pl.(minor.FilterPlugin).Filter(ctx, s, pod, nodes[0]).IsSuccess())
				allocs := testing.AllocsPerRun(100, func() { pl.(minor.FilterPlugin).Filter(ctx, s, pod, nodes[0]) })
				check.Equal(t, name+" "+args+": allocations with "+what, 0.0, allocs)
			}
		}
	}
}

// A cycle sees one snapshot, also in clones of its state.
func TestFilter_OneSnapshotPerCycle(t *testing.T) {
	for name := range limiters() {
		loads, node := plugintest.NewLoads(), plugintest.Node("n", plugintest.CPUAndMemory("8", "16Gi"))
		measure := func(cpu, metric float64) {
			loads.Measure(map[string]load.NodeLoad{"n": {load.CPU: plugintest.Measurement(cpu, 0)}},
				map[string]load.MetricTable{"m0": {"n": {Value: metric, End: plugintest.Now()}}})
		}
		measure(0.1, 1)
		pl, state := build(t, loads, name, ""), framework.NewCycleState()
		passes := func(s fwk.CycleState) bool {
			return pl.(minor.FilterPlugin).Filter(t.Context(), s, st.MakePod().Obj(), node).IsSuccess()
		}
		pl.(minor.PreFilterPlugin).PreFilter(t.Context(), state, st.MakePod().Obj(), nil)
		clone := state.Clone()
		measure(0.9, 9)
		check.Equal(t, name+": passes by the snapshot of the cycle, of a clone, and of the next cycle", [3]bool{true, true, false},
			[3]bool{passes(state), passes(clone), passes(framework.NewCycleState())})
	}
}

// A node that changed costs as many allocations whatever its pods.
func TestScore_ChangedNodeAllocations(t *testing.T) {
	for name := range scorers() {
		_, ctx := ktesting.NewTestContext(t)
		p, nodes := cluster(1, 20)
		pl, pod, state, node := build(t, p, name, ""), st.MakePod().Req(plugintest.CPUAndMemory("1", "1Gi")).Obj(),
			framework.NewCycleState(), nodes[0]
		change := testing.AllocsPerRun(100, func() { node.SetNode(node.Node()) })
		both := testing.AllocsPerRun(100, func() { node.SetNode(node.Node()); pl.Score(ctx, state, pod, node) })
		// The two parts of a result; the node's pods are the same.
		if allocs := both - change; allocs > 2 {
			t.Errorf("%s: %v allocations for a node with 20 recent pods, want 2", name, allocs)
		}
	}
}

// cluster is a number of nodes with metrics and known load, below any load line. Each has a number of pods that were placed a
// minute ago. Half of their workloads have a history.
func cluster(nodes, podsPerNode int) (*plugintest.Loads, []fwk.NodeInfo) {
	measured := map[string]load.NodeLoad{}
	var infos []fwk.NodeInfo
	for i := range nodes {
		name := fmt.Sprint("node-", i)
		measured[name] = load.NodeLoad{
			load.CPU:    plugintest.Measurement(float64(i%40)/100, 0.1),
			load.Memory: plugintest.Measurement(0.25, 0.1),
		}
		var pods []*corev1.Pod
		for j := range podsPerNode {
			started := metav1.NewTime(plugintest.Now().Add(-time.Minute))
			pod := st.MakePod().Namespace("ns").Name(fmt.Sprint("pod-", i, "-", j)).Phase(corev1.PodRunning).StartTime(started).
				Req(plugintest.CPUAndMemory("100m", "100Mi")).Obj()
			pods = append(pods, plugintest.Owned(pod, workload(j).Name))
		}
		info := plugintest.Node(name, plugintest.CPUAndMemory("8", "16Gi"), pods...)
		info.Generation = int64(uint32(i+1) * 2654435761) // each node changed at a time of its own
		infos = append(infos, info)
	}
	loads := plugintest.NewLoads()
	loads.Measure(measured, metricsOf(nodes))
	workloads := map[learned.Workload][load.ResourceCount]learned.Moments{}
	for j := range podsPerNode / 2 { // the others have no history
		workloads[workload(j)] = [load.ResourceCount]learned.Moments{
			load.CPU:    {Mean: 50, Variance: 100},
			load.Memory: {Mean: 1 << 26, Variance: 1 << 40},
		}
	}
	loads.Learn(workloads, 0.5)
	return loads, infos
}

// workload is that of the pods at one position among those of the nodes of cluster.
func workload(position int) learned.Workload {
	return learned.Workload{Namespace: "ns", Name: fmt.Sprint("workload-", position)}
}

// NodeMetrics allocates nothing per node.
func TestNormalizeScore_AllocatesNothingPerNode(t *testing.T) {
	pl, pod := build(t, loaded(1000, 0), nodemetrics.Name, ""), st.MakePod().Obj()
	allocsOver := func(nodes int) float64 {
		_, infos := cluster(nodes, 0)
		scores := make(minor.NodeScoreList, nodes)
		return testing.AllocsPerRun(10, func() {
			state := framework.NewCycleState()
			for i := range infos {
				scores[i].Name = infos[i].Node().Name
				scores[i].Score, _ = pl.Score(t.Context(), state, pod, infos[i])
			}
			pl.ScoreExtensions().NormalizeScore(t.Context(), state, pod, scores)
		})
	}
	if hundred, thousand := allocsOver(100), allocsOver(1000); thousand > hundred {
		t.Errorf("%v allocations over 1,000 nodes, %v over 100", thousand, hundred)
	}
}

// loaded are the loads of the nodes of cluster.
func loaded(nodes, podsPerNode int) *plugintest.Loads {
	loads, _ := cluster(nodes, podsPerNode)
	return loads
}

// metricsOf are values of the metrics m0, m1 and m2 of the nodes of cluster.
func metricsOf(nodes int) map[string]load.MetricTable {
	tables := map[string]load.MetricTable{}
	for m := range 3 {
		table := load.MetricTable{}
		for i := range nodes {
			table[fmt.Sprint("node-", i)] = load.MetricValue{Value: float64((i+m)%100) / 25, End: plugintest.Now()}
		}
		tables[fmt.Sprint("m", m)] = table
	}
	return tables
}

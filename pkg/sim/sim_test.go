package sim_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	_ "github.com/plimsoll-scheduler/plimsoll/apis/config/scheme" // the scheduler's scheme knows the plugins' arguments
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/minortest"
	"github.com/plimsoll-scheduler/plimsoll/test/readingtest"
)

// stock is the profile of a kube-scheduler without a configuration.
const stock = ""

// byRequests filters by taints and requests, and scores by preferred taints and by what is left free.
const byRequests = `
profiles:
- plugins:
    multiPoint:
      disabled: [{name: "*"}]
      enabled:
      - {name: PrioritySort}
      - {name: DefaultBinder}
      - {name: DefaultPreemption}
      - {name: TaintToleration, weight: 3}
      - {name: NodeAffinity}
      - {name: NodeResourcesFit, weight: 2}
`

func configuration(tb testing.TB, yaml string) *schedulerconfig.KubeSchedulerConfiguration {
	tb.Helper()
	const header = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
	object, _, err := scheme.Codecs.UniversalDecoder().Decode([]byte(header+yaml), nil, nil)
	check.OK(tb, err)
	return object.(*schedulerconfig.KubeSchedulerConfiguration)
}

func newScheduler(tb testing.TB, yaml string, o sim.Options) *sim.Scheduler {
	tb.Helper()
	o.Configuration = configuration(tb, yaml)
	return check.Value(sim.New(tb.Context(), o))(tb)
}

func resources(cpu, memory string) map[corev1.ResourceName]string {
	return map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory}
}

func node(name, cpu, memory string) *corev1.Node {
	capacity := resources(cpu, memory)
	capacity[corev1.ResourcePods] = "110"
	return st.MakeNode().Name(name).Label(corev1.LabelHostname, name).Capacity(capacity).Obj()
}

func pod(name, cpu, memory string) *st.PodWrapper {
	return st.MakePod().Namespace("ns").Name(name).UID(name).SchedulerName(corev1.DefaultSchedulerName).Req(resources(cpu, memory))
}

func decide(tb testing.TB, s *sim.Scheduler, pod *corev1.Pod) *sim.Result {
	tb.Helper()
	return check.Value(s.Decide(tb.Context(), pod))(tb)
}

func explain(tb testing.TB, s *sim.Scheduler, pod *corev1.Pod) *sim.Result {
	tb.Helper()
	return check.Value(s.Explain(tb.Context(), pod))(tb)
}

// nodeSummary is a sim.NodeResult that can be compared.
type nodeSummary struct {
	Name, Plugin, Code, Reasons string
	Passed                      bool
	Scores                      []sim.Score
	Total                       int64
	Terms                       []sim.PluginTerms
}

// summarize returns the summaries, sorted by name.
func summarize(nodes []sim.NodeResult) []nodeSummary {
	var all []nodeSummary
	for _, n := range nodes {
		r := nodeSummary{Name: n.Name, Passed: n.Rank > 0, Scores: n.Scores, Total: n.Total, Terms: n.Terms}
		if n.RuledOutBy != "" {
			r.Plugin, r.Code, r.Reasons = n.RuledOutBy, n.Code.String(), n.Reason
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b nodeSummary) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func TestExplain_ReasonsAndScoresOfStockPlugins(t *testing.T) {
	avoided := node("avoided", "4", "8Gi")
	avoided.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectPreferNoSchedule}}
	tainted := node("tainted", "4", "8Gi")
	tainted.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
	s := newScheduler(t, byRequests, sim.Options{Objects: []apiruntime.Object{
		node("idle", "4", "8Gi"), avoided, tainted, node("full", "1", "8Gi"), node("small", "500m", "8Gi"),
		pod("running", "2", "2Gi").Node("avoided").Obj(),
		pod("other", "500m", "0").Node("full").Obj(),
	}})
	d := explain(t, s, pod("p", "1", "2Gi").Obj())
	want := []nodeSummary{
		// No taint less than any other counts 0 of at most 1: 100·(1 − 1/1) = 0, times 3. With the pod, 3 of 4 cores and 4 of
		// 8 GiB are requested: (25 + 50)/2 = 37, times 2.
		{Name: "avoided", Passed: true, Total: 74, Scores: []sim.Score{
			{Plugin: "TaintToleration", Normalized: 0, Weight: 3, Weighted: 0},
			{Plugin: "NodeResourcesFit", Normalized: 37, Weight: 2, Weighted: 74},
		}},
		{Name: "full", Plugin: "NodeResourcesFit", Code: "Unschedulable", Reasons: "Insufficient cpu"},
		// 1 of 4 cores and 2 of 8 GiB: (75 + 75)/2 = 75, times 2.
		{Name: "idle", Passed: true, Total: 450, Scores: []sim.Score{
			{Plugin: "TaintToleration", Normalized: 100, Weight: 3, Weighted: 300},
			{Plugin: "NodeResourcesFit", Normalized: 75, Weight: 2, Weighted: 150},
		}},
		{Name: "small", Plugin: "NodeResourcesFit", Code: "UnschedulableAndUnresolvable", Reasons: "Insufficient cpu"},
		{Name: "tainted", Plugin: "TaintToleration", Code: "UnschedulableAndUnresolvable", Reasons: "node(s) had untolerated taint(s)"},
	}
	check.Equal(t, "nodes", want, summarize(d.Nodes))
	if d.Node != "idle" || d.Evaluated != 5 || d.Feasible != 2 || d.Err != nil || d.PostFilter != nil {
		t.Errorf("decision %+v, want idle, the better of 2 among 5", d)
	}
	if got := decide(t, s, pod("p", "1", "2Gi").Obj()); got.Node != d.Node || got.Nodes != nil {
		t.Errorf("Decide finds %q with results of %d nodes, want the same node and no results", got.Node, len(got.Nodes))
	}
}

func TestExplain_NodesThatPreFilterRulesOut(t *testing.T) {
	s := newScheduler(t, byRequests,
		sim.Options{Objects: []apiruntime.Object{node("a", "4", "8Gi"), node("b", "4", "8Gi"), node("c", "4", "8Gi")}})
	named := func(node string) *corev1.Pod {
		return pod("p", "1", "1Gi").NodeAffinityIn("metadata.name", []string{node}, st.NodeSelectorTypeMatchFields).Obj()
	}
	ruledOut := nodeSummary{
		Plugin: "NodeAffinity", Code: "UnschedulableAndUnresolvable", Reasons: "node(s) didn't satisfy plugin(s) [NodeAffinity]",
	}
	others := func(but string) (want []nodeSummary) {
		for _, name := range []string{"a", "b", "c"} {
			if n := ruledOut; name == but {
				want = append(want, nodeSummary{Name: name, Passed: true}) // the only one is not scored
			} else {
				n.Name = name
				want = append(want, n)
			}
		}
		return want
	}
	d := explain(t, s, named("b"))
	if diff := cmp.Diff(others("b"), summarize(d.Nodes)); diff != "" || d.Node != "b" {
		t.Errorf("node %q, want b (-want +got):\n%s", d.Node, diff)
	}
	d = explain(t, s, named("x"))
	if diff := cmp.Diff(others("x"), summarize(d.Nodes)); diff != "" || d.Node != "" {
		t.Errorf("node %q, want none (-want +got):\n%s", d.Node, diff)
	}
	if want := "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity]."; d.Err == nil ||
		!strings.HasPrefix(d.Err.Error(), want) {
		t.Errorf("error %v, want %s", d.Err, want)
	}
}

func TestDecide_WithoutNodes(t *testing.T) {
	s := newScheduler(t, stock, sim.Options{})
	d := decide(t, s, pod("p", "1", "1Gi").Obj())
	if d.Node != "" || d.Err == nil || d.Err.Error() != "no nodes available to schedule pods" {
		t.Errorf("node %q, %v; want no nodes", d.Node, d.Err)
	}
}

func TestDecide_SamplesNodesAsConfigured(t *testing.T) {
	var nodes []apiruntime.Object
	for i := range 300 {
		nodes = append(nodes, node(fmt.Sprint("n", i), "4", "8Gi"))
	}
	s := newScheduler(t, byRequests+"percentageOfNodesToScore: 50\n", sim.Options{Objects: nodes})
	check.Equal(t, "Decide: feasible nodes, half of all", 150, decide(t, s, pod("p", "1", "1Gi").Obj()).Feasible)
	check.Equal(t, "Explain: feasible nodes, want all 300", 300, explain(t, s, pod("p", "1", "1Gi").Obj()).Feasible)
}

// A sample of the nodes that PreFilter selected would be in the order of a map.
func TestDecide_EvaluatesAllNodesThatPreFilterSelects(t *testing.T) {
	var nodes []apiruntime.Object
	selected := pod("p", "1", "1Gi").Obj()
	selected.Spec.Affinity = &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{}},
	}
	required := selected.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	for i := range 300 {
		name := fmt.Sprint("n", i)
		nodes = append(nodes, node(name, "4", "8Gi"))
		if i < 200 {
			required.NodeSelectorTerms = append(
				required.NodeSelectorTerms,
				corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
					{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{name}},
				}},
			)
		}
	}
	s := newScheduler(t, byRequests, sim.Options{Objects: nodes})
	check.Equal(t, "feasible nodes, want all 200 that are selected", 200, decide(t, s, selected).Feasible)
}

func TestDecide_Preemption(t *testing.T) {
	low, high := pod("low", "1", "1Gi").Priority(1).Node("a").Obj(), pod("high", "1", "1Gi").Priority(10).Obj()
	s := newScheduler(t, byRequests, sim.Options{Objects: []apiruntime.Object{
		node("a", "1", "8Gi"), node("b", "1", "8Gi"), low, pod("equal", "1", "1Gi").Priority(10).Node("b").Obj(), high,
	}})
	middle := pod("middle", "1", "1Gi").Priority(5).Obj()
	check.OK(t, s.Add(middle))

	d := decide(t, s, middle)
	if d.PostFilter == nil || d.PostFilter.NominatedNode != "a" {
		t.Fatalf("PostFilter %+v, want a place on a", d.PostFilter)
	}
	d = decide(t, s, high)
	if d.Node != "" || d.PostFilter == nil || !d.PostFilter.Status.IsSuccess() || d.PostFilter.NominatedNode != "a" {
		t.Fatalf("node %q, PostFilter %+v; want none yet, and a place on a", d.Node, d.PostFilter)
	}
	if len(d.PostFilter.Victims) != 1 || d.PostFilter.Victims[0] != low {
		t.Errorf("victims %v, want low", d.PostFilter.Victims)
	}
	if want := "0/2 nodes are available: 2 Insufficient cpu."; !strings.HasPrefix(d.Err.Error(), want) {
		t.Errorf("error %q, want %q", d.Err, want)
	}

	check.OK(t, s.Remove(low))
	check.Equal(t, "another pod goes to, want nowhere: the place is kept for high", "",
		decide(t, s, pod("other", "1", "1Gi").Priority(5).Obj()).Node)
	d = decide(t, s, high)
	check.Require(t, "high goes to", "a", d.Node)
	check.OK(t, s.Assume(t.Context(), d))
	bound := high.DeepCopy()
	bound.Spec.NodeName = "a"
	check.OK(t, s.Update(bound))
	check.OK(t, s.Remove(bound))
	check.Equal(t, "a pod of low priority goes to: middle lost its place there to high", "a",
		decide(t, s, pod("lowest", "1", "1Gi").Obj()).Node)
}

func TestDecide_PodThatWasNotAdded(t *testing.T) {
	s := newScheduler(t, byRequests, sim.Options{Objects: []apiruntime.Object{
		node("a", "1", "8Gi"), pod("low", "1", "1Gi").Priority(1).Node("a").Obj(),
	}})
	p := pod("p", "1", "1Gi").Priority(10).Obj()
	if d := decide(t, s, p); d.PostFilter == nil || d.PostFilter.NominatedNode != "a" {
		t.Errorf("PostFilter %+v, want a place on a", d.PostFilter)
	}
	check.OK(t, s.Add(p)) // it is not there
}

func TestAssumeAndForget(t *testing.T) {
	// Of 4 cores, 1 is taken on b: a is the emptier one until the pod runs there, with 2.
	s := newScheduler(t, byRequests, sim.Options{Objects: []apiruntime.Object{
		node("a", "4", "8Gi"), node("b", "4", "8Gi"), pod("running", "1", "1Gi").Node("b").Obj(),
	}})
	first := decide(t, s, pod("first", "2", "2Gi").Obj())
	check.Require(t, "the first pod goes to", "a", first.Node)
	check.OK(t, s.Assume(t.Context(), first))
	second := pod("second", "1", "1Gi").Obj()
	check.Equal(t, "with the first pod on a the second goes to", "b", decide(t, s, second).Node)
	check.OK(t, s.Forget(t.Context(), first))
	check.Equal(t, "without the first pod the second goes to", "a", decide(t, s, second).Node)
	if err := s.Forget(t.Context(), first); err == nil {
		t.Error("a pod is forgotten twice")
	}
}

func TestAssume_ReservesVolumes(t *testing.T) {
	const class = "local"
	waiting := func(name string) *corev1.PersistentVolumeClaim {
		claim := st.MakePersistentVolumeClaim().Namespace("ns").Name(name).StorageClassName(ptr.To(class)).
			AccessModes([]corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}).Obj()
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		return claim
	}
	volume := localVolume("pv", "a")
	volume.Spec.StorageClassName, volume.Status.Phase = class, corev1.VolumeAvailable
	volume.ResourceVersion = "1" // before Kubernetes 1.35, VolumeBinding wants one; objects of an API server have one
	s := newScheduler(t, stock, sim.Options{Objects: []apiruntime.Object{
		node("a", "4", "8Gi"), waiting("first"), waiting("second"), volume, &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: "kubernetes.io/no-provisioner",
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
		},
	}})
	first, second := decide(t, s, pod("p1", "1", "1Gi").PVC("first").Obj()), pod("p2", "1", "1Gi").PVC("second").Obj()
	check.OK(t, s.Assume(t.Context(), first))
	check.Equal(t, "the second pod goes to, want nowhere: the volume is reserved", "", decide(t, s, second).Node)
	check.OK(t, s.Forget(t.Context(), first))
	if d := decide(t, s, second); d.Node != "a" {
		t.Errorf("the second pod goes to %q, want a: the volume is free again (%v)", d.Node, d.Err)
	}
}

// localVolume is a volume on the node.
func localVolume(name, node string) *corev1.PersistentVolume {
	return st.MakePersistentVolume().Name(name).Capacity(corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}).
		AccessModes([]corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}).NodeAffinityIn(corev1.LabelHostname, []string{node}).Obj()
}

func TestTies_FollowTheSeed(t *testing.T) {
	sequence := func(seed uint64) (chosen []string) {
		var nodes []apiruntime.Object
		for i := range 20 {
			nodes = append(nodes, node(fmt.Sprint("n", i), "4", "8Gi"))
		}
		s := newScheduler(t, stock, sim.Options{Objects: nodes, Rand: rand.New(rand.NewPCG(seed, 0))})
		for i := range 40 {
			d := decide(t, s, pod(fmt.Sprint("p", i), "100m", "128Mi").Obj())
			check.OK(t, s.Assume(t.Context(), d))
			chosen = append(chosen, d.Node)
		}
		return chosen
	}
	first := sequence(1)
	for range 3 {
		check.Require(t, "with the same seed (-first +again)", "", cmp.Diff(first, sequence(1)))
	}
	if cmp.Equal(first, sequence(2)) {
		t.Error("another seed chooses the same nodes")
	}
}

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// loads are the CPU loads of nodes, as fractions.
type loads map[string]float64

func (l loads) plugins() sim.Options {
	nodes := map[string]load.NodeLoad{}
	for name, mean := range l {
		nodes[name] = load.NodeLoad{load.CPU: load.Measurement{Stat: load.Stat{Mean: mean, Known: true}, End: now}}
	}
	p := readingtest.New(clocktesting.NewFakePassiveClock(now))
	p.MeasureAll(nodes, nil)
	return sim.Options{Plugins: plugins.NewRegistry(p, clocktesting.NewFakeClock(now), func(...metrics.Registerable) {})}
}

func TestNodeInfos_FollowObjectsAndDecisions(t *testing.T) {
	o := loads{"a": 0.25}.plugins()
	o.Objects = []apiruntime.Object{node("a", "8", "16Gi")}
	s := newScheduler(t, withLoad, o)
	pods := func() (names []string) {
		t.Helper()
		infos := check.Value(s.NodeInfos(t.Context()))(t)
		for _, info := range infos {
			names = append(names, info.Node().Name)
			for _, p := range info.GetPods() {
				names = append(names, p.GetPod().Name)
			}
		}
		return names
	}
	expect := func(step string, want ...string) {
		t.Helper()
		check.Equal(t, step+": pods", want, pods())
	}
	d := decide(t, s, pod("assumed", "1", "1Gi").Obj())
	expect("a decision changes nothing", "a")
	check.OK(t, s.Assume(t.Context(), d))
	expect("an assumed pod is on its node", "a", "assumed")
	check.OK(t, s.Add(pod("bound", "1", "1Gi").Node("a").Obj()))
	expect("so is a bound pod", "a", "assumed", "bound")
	check.OK(t, s.Forget(t.Context(), d))
	check.OK(t, s.Remove(pod("bound", "1", "1Gi").Node("a").Obj()))
	expect("neither is any more", "a")
}

func TestLoadReaders(t *testing.T) {
	const yaml = `
profiles:
- plugins:
    multiPoint:
      enabled: [{name: Peaks}, {name: LowRiskOverCommitment}, {name: LoadVariationRiskBalancing}, {name: TargetLoadPacking}, {name: LoadThreshold}]
  pluginConfig: [{name: Peaks, args: {nodePowerModels: [{k0: 1, k1: 1, k2: 0.1}]}}]
`
	s := newScheduler(t, yaml, loads{}.plugins())
	var names []string
	for _, r := range s.LoadReaders(corev1.DefaultSchedulerName) {
		names = append(names, r.Name())
	}
	check.Equal(t, "names", []string{
		"LoadThreshold",
		"TargetLoadPacking",
		"LoadVariationRiskBalancing",
		"LowRiskOverCommitment",
		"Peaks",
	}, names)
	if got := s.LoadReaders("none"); got != nil {
		t.Errorf("%v of a profile that does not exist", got)
	}
}

// The worked example, with a pod that uses 400m of 8 cores, 5 %. One was placed a moment ago on worker-1, and uses 5 % too.
func TestExplain_TermsOfLoadPlugins(t *testing.T) {
	const yaml = `
profiles:
- plugins:
    filter:
      enabled: [{name: LoadThreshold}]
    preFilter:
      enabled: [{name: LoadThreshold}]
    score:
      disabled: [{name: "*"}]
      enabled: [{name: TargetLoadPacking}]
  pluginConfig:
  - {name: LoadThreshold, args: {thresholds: {cpu: 45}}}
  - {name: TargetLoadPacking, args: {defaultRequestsMultiplier: "1"}}
`
	o := loads{"worker-1": 0.25, "worker-2": 0.50}.plugins()
	o.Objects = []apiruntime.Object{
		node("worker-1", "8", "16Gi"), node("worker-2", "8", "16Gi"), node("worker-3", "8", "16Gi"),
		pod("placed", "400m", "0").Node("worker-1").Obj(),
	}
	d := explain(t, newScheduler(t, yaml, o), pod("p", "400m", "0").Obj())
	explained := map[string]string{}
	for _, n := range d.Nodes {
		var lines []string
		for _, e := range n.Terms {
			lines = append(lines, fmt.Sprintf("%s %.1f: %v", e.Plugin, *e.Score, e.Terms))
		}
		explained[n.Name] = strings.Join(lines, "\n")
	}
	want := map[string]string{
		// Both count 25 + 5 + 5 = 35 percent; 60·35/40 + 40 = 92.5. LoadThreshold's score is in hundredths of a percent.
		"worker-1": "LoadThreshold 3500.0: [cpu measured 25% cpu deviation 0% cpu pending 5% cpu of the pod 5% cpu utilization 35% cpu load line 45%]\n" +
			"TargetLoadPacking 92.5: [cpu measured 25% cpu deviation 0% cpu pending 5% cpu of the pod 5% cpu utilization 35% target utilization 40%]",
		// 50 + 5 = 55 percent, above the load line, and 40·(100 − 55)/60 = 30.
		"worker-2": "LoadThreshold 5500.0: [cpu measured 50% cpu deviation 0% cpu pending 0% cpu of the pod 5% cpu utilization 55% cpu load line 45%]\n" +
			"TargetLoadPacking 30.0: [cpu measured 50% cpu deviation 0% cpu pending 0% cpu of the pod 5% cpu utilization 55% target utilization 40%]",
		// No load is known, and no pod requests anything: 5 percent; 60·5/40 + 40 = 47.5.
		"worker-3": "LoadThreshold 500.0: [cpu requested 0% cpu pending 0% cpu of the pod 5% cpu utilization 5% cpu load line 45%]\n" +
			"TargetLoadPacking 47.5: [cpu requested 0% cpu pending 0% cpu of the pod 5% cpu utilization 5% target utilization 40%]",
	}
	if diff := cmp.Diff(want, explained); diff != "" || d.Node != "worker-1" {
		t.Errorf("node %q, want worker-1; terms (-want +got):\n%s", d.Node, diff)
	}
}

// LowRiskOverCommitment and Peaks score by themselves, with no other extension point enabled.
func TestLoadPlugins_ScoreAlone(t *testing.T) {
	const profile = `
profiles:
- plugins:
    preScore: {disabled: [{name: "*"}]}
    score: {disabled: [{name: "*"}], enabled: [{name: %s}]}
  pluginConfig: [{name: %s, args: {%s}}]
`
	limited := pod("p", "2", "0").Obj()
	limited.Spec.Containers[0].Resources.Limits = limited.Spec.Containers[0].Resources.Requests
	for _, tc := range []struct {
		plugin, args string
		want         []int64
		wantNode     string
	}{
		// The pod on worker-1 has no limit, and so the limit of its request: 0 of the half for limits. With it 25 + 25
		// percent are used, more than the 25 requested: 1, halved, which leaves 50. worker-2 has no pods, and worker-3
		// no load: the mean of 50 and 100.
		{"LowRiskOverCommitment", "riskLimitWeights: {memory: 0}", []int64{50, 100, 75}, "worker-2"},
		// k2 doubles the power with every 25 percent. worker-1: 10·(8 − 4), with the pod that was just placed;
		// worker-2: 10·(8 − 4) too, but of half the size; worker-3, without load: the mean of 0 and 100.
		{"Peaks", "nodePowerModel: {worker-2: {k1: 5, k2: 0.0277258872}}, nodePowerModels: [{k1: 10, k2: 0.0277258872}]", []int64{0, 100, 50}, "worker-2"},
	} {
		t.Run(tc.plugin, func(t *testing.T) {
			o := loads{"worker-1": 0.25, "worker-2": 0.50}.plugins()
			o.Objects = []apiruntime.Object{
				node("worker-1", "8", "16Gi"),
				node("worker-2", "8", "16Gi"),
				node("worker-3", "8", "16Gi"),
				pod("placed", "2", "0").Node("worker-1").Obj(),
			}
			d := explain(t, newScheduler(t, fmt.Sprintf(profile, tc.plugin, tc.plugin, tc.args), o), limited)
			var got []int64
			for _, n := range summarize(d.Nodes) {
				got = append(got, n.Total)
			}
			if !slices.Equal(got, tc.want) || tc.wantNode != "" && d.Node != tc.wantNode {
				t.Errorf("scores %v, node %s; want %v, %s", got, d.Node, tc.want, tc.wantNode)
			}
		})
	}
}

// Nothing is explained by plugins that skip the pod.
func TestExplain_SkippedPluginsHaveNoTerms(t *testing.T) {
	o := loads{}.plugins()
	o.Objects = []apiruntime.Object{node("a", "8", "16Gi"), node("b", "8", "16Gi")}
	d := explain(t, newScheduler(t, withLoad, o), pod("p", "1", "1Gi").Obj())
	for _, n := range d.Nodes {
		if n.Terms != nil {
			t.Errorf("%s without known load: %+v, want no terms", n.Name, n.Terms)
		}
	}
}

// Nodes that are evaluated at the same time get the same results as one after the other.
func TestExplain_Parallel(t *testing.T) {
	loads, objects := loads{}, []apiruntime.Object(nil)
	for i := range 200 {
		name := fmt.Sprint("n", i)
		loads[name] = float64(i%100) / 100
		objects = append(objects, node(name, "8", "16Gi"), pod("on-"+name, fmt.Sprint(i%9), "1Gi").Node(name).Obj())
	}
	results := func(parallelism int) *sim.Result {
		o := loads.plugins()
		o.Objects, o.Parallelism = objects, parallelism
		return explain(t, newScheduler(t, withLoad, o), pod("p", "1", "1Gi").Obj())
	}
	one, many := results(1), results(8)
	if one.Feasible == 0 || one.Feasible == len(one.Nodes) || one.Node == "" {
		t.Fatalf("%d of %d nodes are feasible, want some", one.Feasible, len(one.Nodes))
	}
	check.Equal(t, "nodes (want: one at a time)", summarize(one.Nodes), summarize(many.Nodes))
	if many.Feasible != one.Feasible || many.Node != one.Node {
		t.Errorf("%d feasible nodes and %s, want %d and %s", many.Feasible, many.Node, one.Feasible, one.Node)
	}
}

func TestLoadPlugins_RelaxedLimit(t *testing.T) {
	const yaml = `
profiles:
- plugins:
    multiPoint:
      enabled: [{name: LoadThreshold}]
`
	o := loads{"a": 0.95, "b": 0.90}.plugins()
	o.Objects = []apiruntime.Object{node("a", "8", "16Gi"), node("b", "8", "16Gi")}
	var activated []string
	o.Activated = func(pods map[string]*corev1.Pod) {
		for key := range pods {
			activated = append(activated, key)
		}
	}
	s := newScheduler(t, yaml, o)
	p := pod("p", "100m", "128Mi").Obj()
	d := explain(t, s, p)
	if d.Node != "" || !d.PostFilter.Status.IsSuccess() || d.PostFilter.NominatedNode != "" ||
		!slices.Equal(activated, []string{"ns/p"}) {
		t.Errorf("node %q, PostFilter %+v, activated %v; want none, Success without a nomination, ns/p", d.Node, d.PostFilter, activated)
	}
	for _, n := range summarize(d.Nodes) {
		if n.Plugin != "LoadThreshold" || n.Reasons != "node(s) above their cpu load line (80 percent)" {
			t.Errorf("%s: %+v, want above its load line", n.Name, n)
		}
	}
	d = decide(t, s, p)
	if d.Node != "b" || !slices.Contains(d.SkippedFilters, "LoadThreshold") {
		t.Errorf("node %q, skipped %v; want b, the less loaded, with LoadThreshold skipped", d.Node, d.SkippedFilters)
	}
}

func TestObjects_ReachPlugins(t *testing.T) {
	s := newScheduler(t, stock, sim.Options{Objects: []apiruntime.Object{node("a", "4", "8Gi"), node("b", "4", "8Gi")}})
	const claim = "data"
	p := pod("p", "1", "1Gi").PVC(claim).Obj()
	d := check.Value(s.Explain(t.Context(), p))(t)
	if want := `persistentvolumeclaim "data" not found`; d.Node != "" || !strings.Contains(d.Err.Error(), want) {
		t.Errorf("without the claim: node %q, %v; want none, %s", d.Node, d.Err, want)
	}
	volume := localVolume("pv", "b")
	volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: claim, UID: claim}
	bound := st.MakePersistentVolumeClaim().Namespace("ns").Name(claim).VolumeName("pv").
		Annotation("pv.kubernetes.io/bind-completed", "yes").Obj()
	bound.UID = claim
	check.OK(t, s.Add(volume, bound))
	d = explain(t, s, p)
	if d.Node != "b" {
		t.Errorf("node %q, want b, which has the volume (%v)", d.Node, d.Err)
	}
	if a := summarize(d.Nodes)[0]; a.Plugin != "VolumeBinding" ||
		a.Reasons != "node(s) didn't match PersistentVolume's node affinity" {
		t.Errorf("a: %+v, want ruled out by VolumeBinding", a)
	}
}

func TestObjects_AreAddedUpdatedAndRemoved(t *testing.T) {
	s, p := newScheduler(t, stock, sim.Options{}), pod("p", "3", "1Gi").Obj()
	small, large := node("a", "2", "8Gi"), node("a", "4", "8Gi")
	running := pod("running", "2", "1Gi").Node("a").Obj()
	for _, step := range []struct {
		name string
		do   func() error
		fits bool
	}{
		{"the node is too small", func() error { return s.Add(small) }, false},
		{"the node grows", func() error { return s.Update(large) }, true},
		{"another pod runs there", func() error { return s.Add(running) }, false},
		{"which ends", func() error { return s.Remove(running) }, true},
		{"and the node with it", func() error { return s.Remove(large) }, false},
	} {
		check.OK(t, step.do())
		if d := decide(t, s, p); (d.Node == "a") != step.fits {
			t.Errorf("%s: the pod goes to %q (%v)", step.name, d.Node, d.Err)
		}
	}
}

func TestObjects_Mistakes(t *testing.T) {
	running := pod("running", "1", "1Gi").Node("a").Obj()
	s := newScheduler(t, stock, sim.Options{Objects: []apiruntime.Object{node("a", "4", "8Gi"), node("b", "4", "8Gi"), running}})
	moved, replaced, nameless := running.DeepCopy(), running.DeepCopy(), pod("p", "1", "1Gi").UID("").Obj()
	moved.Spec.NodeName = "b"
	replaced.UID = "other"
	for _, tc := range []struct {
		name string
		do   func() error
		want string
	}{
		{"a node twice", func() error { return s.Add(node("a", "1", "1Gi")) }, "Node a: it is in the cluster already"},
		{"a pod without a UID", func() error { return s.Add(nameless) }, "Pod ns/p: metadata.uid: required"},
		{"a decision without a UID", func() error { _, err := s.Decide(t.Context(), nameless); return err }, "Pod ns/p: metadata.uid: required"},
		{"a kind that is not read", func() error { return s.Add(&corev1.Secret{}) }, "*v1.Secret: no plugin reads this kind"},
		{"a node that is not there", func() error { return s.Update(node("c", "1", "1Gi")) }, "Node c: it is not in the cluster"},
		{"no node to remove", func() error { return s.Remove(node("c", "1", "1Gi")) }, "Node c: it is not in the cluster"},
		{"a pod that moves", func() error { return s.Update(moved) }, `Pod ns/running: spec.nodeName: a pod cannot go from "a" to "b"`},
		{"another pod of the name", func() error { return s.Update(replaced) }, `Pod ns/running: metadata.uid: "other" is another pod`},
		{"another scheduler's pod", func() error {
			_, err := s.Decide(t.Context(), pod("p", "1", "1Gi").SchedulerName("other").Obj())
			return err
		}, `pod ns/p: spec.schedulerName: no profile is called "other"; the profiles are default-scheduler`},
		{"an assumption without a node", func() error { return s.Assume(t.Context(), &sim.Result{Pod: running}) }, "pod ns/running: no node was found for it"},
	} {
		if err := tc.do(); err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %s", tc.name, err, tc.want)
		}
	}
}

func TestNew_RefusesExtenders(t *testing.T) {
	cfg := configuration(t, stock)
	cfg.Extenders = []schedulerconfig.Extender{{URLPrefix: "http://extender"}}
	if _, err := sim.New(t.Context(), sim.Options{Configuration: cfg}); err == nil || !strings.HasPrefix(err.Error(), "extenders:") {
		t.Errorf("%v, want a refusal", err)
	}
}

// unsynced is a plugin that is built before the informers have synced.
type unsynced struct{ minor.PreFilterPlugin }

func (unsynced) Name() string { return "Unsynced" }

func TestNew_SyncsInformersOncePluginsAreBuilt(t *testing.T) {
	const yaml = `
profiles: [{plugins: {preFilter: {enabled: [{name: Unsynced}]}}}]
`
	var nodes cache.SharedIndexInformer
	build := func(_ context.Context, _ apiruntime.Object, handle minor.Handle) (minor.Plugin, error) {
		nodes = handle.SharedInformerFactory().Core().V1().Nodes().Informer()
		if nodes.HasSynced() {
			t.Error("the informer has synced while plugins are built")
		}
		return unsynced{}, nil
	}
	newScheduler(t, yaml, sim.Options{Plugins: frameworkruntime.Registry{"Unsynced": build}})
	if !minortest.Synced(nodes) {
		t.Error("the informer has not synced")
	}
}

func TestObjectsOf(t *testing.T) {
	factory := informers.NewSharedInformerFactory(
		fake.NewClientset(node("b", "4", "8Gi"), node("a", "4", "8Gi"), pod("p", "1", "1Gi").Node("a").Obj(),
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "not-watched"}}),
		0,
	)
	factory.Core().V1().Pods().Informer()
	factory.Core().V1().Nodes().Informer()
	ctx, cancel := context.WithCancel(t.Context())
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	var names []string
	objects := sim.ObjectsOf(factory)
	for _, object := range objects {
		names = append(names, object.(metav1.Object).GetName())
	}
	check.Equal(t, "objects", []string{"a", "b", "p"}, names)
	cancel()
	factory.Shutdown()
	s := newScheduler(t, stock, sim.Options{Objects: objects})
	check.Equal(t, "node, the emptier one", "b", decide(t, s, pod("q", "1", "1Gi").Obj()).Node)
}

func TestDecide_LeavesNothingBehind(t *testing.T) {
	s := newScheduler(t, stock, sim.Options{Objects: []apiruntime.Object{node("a", "4", "8Gi"), node("b", "4", "8Gi")}})
	var pods []weak.Pointer[corev1.Pod]
	for i := range 100 {
		p := pod(fmt.Sprint("p", i), "100m", "128Mi").Obj()
		pods = append(pods, weak.Make(p))
		check.OK(t, s.Add(p))
		d := explain(t, s, p)
		if i%2 == 0 {
			check.OK(t, s.Assume(t.Context(), d))
		}
		check.OK(t, s.Remove(p))
	}
	large := pod("large", "8", "1Gi").Priority(1).Obj()
	pods = append(pods, weak.Make(large))
	decide(t, s, large)
	decide(t, s, pod("last", "1", "1Gi").Obj()) // plugins may hold the latest decision
	runtime.GC()
	for i, p := range pods {
		if p.Value() != nil {
			t.Errorf("pod %d of %d is still held", i, len(pods))
		}
	}
	runtime.KeepAlive(s)
}

// Pods are found by namespace, without an index.
func TestInformers_PodsOfNamespace(t *testing.T) {
	s := newScheduler(t, stock, sim.Options{Objects: []apiruntime.Object{
		st.MakePod().Namespace("a").Name("one").UID("1").Label("app", "web").Obj(), st.MakePod().Namespace("b").Name("one").UID("2").Obj(),
		st.MakePod().Namespace("a").Name("two").UID("3").Obj(),
	}})
	lister := s.Informers().Core().V1().Pods().Lister()
	for _, tt := range []struct {
		namespace string
		selector  labels.Selector
		want      int
	}{
		{"a", labels.Everything(), 2}, {"b", labels.Everything(), 1}, {"c", labels.Everything(), 0}, {"", labels.Everything(), 3},
		{"a", labels.SelectorFromSet(labels.Set{"app": "web"}), 1},
	} {
		pods := check.Value(lister.Pods(tt.namespace).List(tt.selector))(t)
		check.Equal(t, fmt.Sprintf("namespace %q, %s: pods", tt.namespace, tt.selector), tt.want, len(pods))
	}
	if _, err := s.Informers().Core().V1().Pods().Informer().GetIndexer().Index("none", &corev1.Pod{}); err == nil {
		t.Error("an index that does not exist has no error")
	}
}

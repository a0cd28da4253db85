package whatif_test

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	_ "github.com/plimsoll-scheduler/plimsoll/apis/config/scheme"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/manifest"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/whatif"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/minortest"
	"github.com/plimsoll-scheduler/plimsoll/test/readingtest"
)

const window = 5 * time.Minute

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// profiles has one profile that packs nodes up to 80 % and never beyond, and one that spreads.
const profiles = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: 100
profiles:
- schedulerName: packing
  plugins:
    multiPoint: {enabled: [{name: LoadThreshold}]}
    score:
      disabled: [{name: "*"}]
      enabled: [{name: TargetLoadPacking}]
  pluginConfig:
  - {name: LoadThreshold, args: {thresholds: {cpu: 80}, whenNoneFits: Reject}}
  - {name: TargetLoadPacking, args: {targetUtilization: 80, defaultRequestsMultiplier: "1"}}
- schedulerName: relaxed
  plugins:
    multiPoint: {enabled: [{name: LoadThreshold}]}
    score:
      disabled: [{name: "*"}]
      enabled: [{name: TargetLoadPacking}]
  pluginConfig:
  - {name: LoadThreshold, args: {thresholds: {cpu: 80}, whenNoneFits: Relax}}
  - {name: TargetLoadPacking, args: {targetUtilization: 80, defaultRequestsMultiplier: "1"}}
- schedulerName: spreading
  plugins:
    score:
      disabled: [{name: "*"}]
      enabled: [{name: LoadVariationRiskBalancing}]
`

// loadsOf gives plugins the CPU loads of nodes, as fractions, over any window and as any quantile.
func loadsOf(cpu map[string]float64) *readingtest.Loads {
	nodes := map[string]load.NodeLoad{}
	for name, mean := range cpu {
		nodes[name] = load.NodeLoad{load.CPU: load.Measurement{Stat: load.Stat{Mean: mean, Known: true}, End: now}}
	}
	p := readingtest.New(clocktesting.NewFakePassiveClock(now))
	p.MeasureAll(nodes, nil)
	return p
}

func configuration(t testing.TB, yaml string) *schedulerconfig.KubeSchedulerConfiguration {
	t.Helper()
	object, _, err := scheme.Codecs.UniversalDecoder().Decode([]byte(yaml), nil, nil)
	check.OK(t, err)
	return object.(*schedulerconfig.KubeSchedulerConfiguration)
}

func newScheduler(t testing.TB, yaml string, cpu map[string]float64, objects []apiruntime.Object) *sim.Scheduler {
	t.Helper()
	s := check.Value(sim.New(t.Context(), sim.Options{
		Configuration: configuration(t, yaml), Objects: objects, Parallelism: runtime.GOMAXPROCS(0),
		Plugins: plugins.NewRegistry(loadsOf(cpu), clocktesting.NewFakeClock(now), func(...metrics.Registerable) {}),
	}))(t)
	return s
}

// node returns a node of 8 cores, so that 400m are 5 %.
func node(name string) *corev1.Node {
	return st.MakeNode().Name(name).Label(corev1.LabelHostname, name).
		Capacity(map[corev1.ResourceName]string{"cpu": "8", "memory": "16Gi", "pods": "110"}).Obj()
}

// running returns a pod that has run for longer than the window. It has a controller unless the kind is empty.
func running(namespace, name, cpu, node, kind string) *corev1.Pod {
	p := st.MakePod().Namespace(namespace).Name(name).UID(namespace+"/"+name).Req(map[corev1.ResourceName]string{"cpu": cpu}).
		Node(node).SchedulerName("packing").Label("app", name).Phase(corev1.PodRunning).Obj()
	p.Status.StartTime = &metav1.Time{Time: now.Add(-time.Hour)}
	if kind != "" {
		p.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: kind, Name: name, UID: types.UID(name), Controller: ptr.To(true)},
		}
	}
	return p
}

// deployment is a Deployment whose pods request 400m.
func deployment(t testing.TB, scheduler string) *manifest.Manifest {
	t.Helper()
	return read(t, strings.Replace(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      schedulerName: SCHEDULER
      containers: [{name: main, image: web, resources: {requests: {cpu: 400m}}}]
`, "SCHEDULER", scheduler, 1))
}

func read(t testing.TB, text string) *manifest.Manifest {
	t.Helper()
	return check.Value(manifest.ReadFile("-", strings.NewReader(text), "default"))(t)
}

func plan(t testing.TB, objects []apiruntime.Object, s whatif.Scenario) *whatif.Plan {
	t.Helper()
	return check.Value(whatif.NewPlan(objects, s))(t)
}

func runOn(t testing.TB, p *whatif.Plan, s *sim.Scheduler, schedulerName string) *whatif.Outcome {
	t.Helper()
	p.SchedulerName = schedulerName
	out, err := p.Run(t.Context(), s, whatif.RunOptions{Profiles: []string{"packing", "relaxed", "spreading"}})
	check.OK(t, err)
	return out
}

// placed returns the number of pods placed by node, such as "a 2, b 1".
func placed(o *whatif.Outcome) string {
	var parts []string
	for _, n := range o.Nodes {
		if n.Placed > 0 {
			parts = append(parts, fmt.Sprint(n.Name, " ", n.Placed))
		}
	}
	return strings.Join(parts, ", ")
}

func nodeNamed(t testing.TB, o *whatif.Outcome, name string) whatif.ChangedNode {
	t.Helper()
	for _, n := range o.Nodes {
		if n.Name == name {
			return n
		}
	}
	t.Fatalf("node %s is not reported", name)
	return whatif.ChangedNode{}
}

// percents returns CPU before and after, rounded; -1 if unknown.
func percents(n whatif.ChangedNode) [2]int {
	round := func(p *float64) int { return int(math.Round(ptr.Deref(p, -1))) }
	return [2]int{round(n.CPU.BeforePercent), round(n.CPU.AfterPercent)}
}

func threeNodes() ([]apiruntime.Object, map[string]float64) {
	return []apiruntime.Object{node("a"), node("b"), node("c")}, map[string]float64{"a": 0.75, "b": 0.5, "c": 0.2}
}

// count says how many pods were placed.
func count(o *whatif.Outcome) string { return fmt.Sprintf("%d of %d pods placed", o.Placed, o.Pods) }

// Pods of 5 % are packed up to 80 %. One fits at 75 %, six at 50 %, and twelve at 20 %.
func TestRun_PlacesReplicas(t *testing.T) {
	objects, cpu := threeNodes()
	p := plan(t, objects, whatif.Scenario{Manifest: deployment(t, "packing"), Replicas: ptr.To(21)})
	o := runOn(t, p, newScheduler(t, profiles, cpu, objects), "")
	if placed(o) != "c 12, b 6, a 1" || o.Placed != 19 || o.Pods != 21 || o.NodesAboveAfter != 0 {
		t.Errorf("%s: %s; %d nodes above their line; want 19 of 21: c 12, b 6, a 1, and none above", count(o), placed(o),
			o.NodesAboveAfter)
	}
	for name, want := range map[string][2]int{"a": {75, 80}, "b": {50, 80}, "c": {20, 80}} {
		if n := nodeNamed(t, o, name); percents(n) != want || *n.CPU.LinePercent != 80 {
			t.Errorf("%s: %v %% of CPU with a line at %v, want %v and 80", name, percents(n), *n.CPU.LinePercent, want)
		}
	}
	if len(o.Unschedulable) != 1 {
		t.Fatalf("groups %+v, want one", o.Unschedulable)
	}
	g := o.Unschedulable[0]
	if g.Pods != 2 || g.Of != "Deployment shop/web" ||
		g.Reason != "0/3 nodes are available: 3 node(s) above their cpu load line (80 percent)" {
		t.Errorf("group %+v, want the 2 pods above the load line", g)
	}
	check.Equal(t, "profile and plugin of the line", [2]string{"packing", "LoadThreshold"}, [2]string{o.Profile, o.LinePlugin})
}

// A limit that is relaxed lets the last two pods pass the line. The same plan runs under another profile.
func TestRun_UnderAnotherProfile(t *testing.T) {
	objects, cpu := threeNodes()
	p := plan(t, objects, whatif.Scenario{Manifest: deployment(t, "packing"), Replicas: ptr.To(21)})
	if o := runOn(t, p, newScheduler(t, profiles, cpu, objects), "relaxed"); o.Placed != 21 || o.Relaxed != 2 ||
		o.NodesAboveAfter != 2 {
		t.Errorf("relaxed: %s, %d by a waived limit, %d nodes above; want 21, 2 and 2", count(o), o.Relaxed, o.NodesAboveAfter)
	}
	// LoadVariationRiskBalancing takes the least risky node: c up to the 50 % of b.
	if o := runOn(t, p, newScheduler(t, profiles, cpu, objects), "spreading"); o.Placed != 21 || nodeNamed(t, o, "c").Placed < 13 {
		t.Errorf("spreading: %s, %s; want 21, most of them on c", count(o), placed(o))
	}
	if o := runOn(t, p, newScheduler(t, profiles, cpu, objects), ""); o.Placed != 19 {
		t.Errorf("packing again: %s, want 19", count(o))
	}
}

func TestRun_Drain(t *testing.T) {
	objects, cpu := threeNodes()
	ended := running("shop", "ended", "400m", "a", "ReplicaSet")
	ended.Status.Phase = corev1.PodSucceeded
	objects = append(objects,
		running("shop", "web", "400m", "a", "ReplicaSet"), running("shop", "agent", "400m", "a", "DaemonSet"),
		running("shop", "bare", "400m", "a", ""), running("shop", "other", "400m", "b", "ReplicaSet"), ended,
		running("kube-system", "proxy", "400m", "a", "Node"),
		&policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		})
	p := plan(t, objects, whatif.Scenario{Drain: []string{"a"}})
	o := runOn(t, p, newScheduler(t, profiles, cpu, objects), "")
	if o.Pods != 1 || placed(o) != "b 1" { // b is nearer to 80 % than c
		t.Errorf("%s: %s; want the one pod of a ReplicaSet on b", count(o), placed(o))
	}
	// The two evicted pods were 10 % of a's 75 %. The DaemonSet's and the static pod stay. The ended one uses nothing.
	if a := nodeNamed(t, o, "a"); !a.Drained || percents(a) != [2]int{75, 65} {
		t.Errorf("a: %+v with %v %%; want drained, from 75 to 65 %%", a, percents(a))
	}
	if want := []string{"a drained: 2 pods evicted, 1 to place elsewhere, 1 lost"}; !slices.Equal(p.Changes, want) ||
		!slices.Equal(p.Lost, []string{"shop/bare"}) {
		t.Errorf("changes %q and lost pods %q, want %q and shop/bare", p.Changes, p.Lost, want)
	}
	notes := strings.Join(p.Notes, "\n")
	for _, want := range []string{
		"1 pod without a controller would be lost: nobody recreates them: shop/bare",
		"PodDisruptionBudget shop/web allows 0 evictions of 1 pod now",
	} {
		check.Contains(t, notes, want)
	}
}

// The measured load of both nodes loses the 20 % that each evicted pod used there.
func TestRun_EvictAllIn(t *testing.T) {
	objects := []apiruntime.Object{
		node("a"),
		node("b"),
		running("batch", "one", "1600m", "a", "ReplicaSet"),
		running("batch", "two", "1600m", "b", "ReplicaSet"),
	}
	p := plan(t, objects, whatif.Scenario{EvictAllIn: []string{"batch", "batch"}})
	if want := []string{"namespace batch: 2 pods evicted, 2 to place again"}; !slices.Equal(p.Changes, want) || p.Lost != nil {
		t.Errorf("changes %q and lost pods %q, want %q and none", p.Changes, p.Lost, want)
	}
	o := runOn(t, p, newScheduler(t, profiles, map[string]float64{"a": 0.6, "b": 0.5}, objects), "")
	// Without them a is at 40 % and b at 30 %. The fuller one is packed: to 60 and to 80 %.
	if placed(o) != "a 2" || percents(nodeNamed(t, o, "a")) != [2]int{60, 80} || percents(nodeNamed(t, o, "b")) != [2]int{50, 30} {
		t.Errorf("%s with %v and %v %%; want both on a, from 60 to 80 %%, and b from 50 to 30 %%", placed(o),
			percents(nodeNamed(t, o, "a")), percents(nodeNamed(t, o, "b")))
	}
}

// A pod without a controller that is preempted is lost.
func TestRun_PreemptionLosesPod(t *testing.T) {
	high := st.MakePod().Namespace("shop").
		Name("high").UID("high").Priority(10).Req(map[corev1.ResourceName]string{"cpu": "6"}).SchedulerName("spreading").Obj()
	objects := []apiruntime.Object{node("a"), running("shop", "bare", "7", "a", ""), high}
	o := runOn(t, plan(t, objects, whatif.Scenario{Pending: true}), newScheduler(t, profiles, map[string]float64{"a": 0.2}, objects),
		"")
	want := []string{
		"Preempted: shop/bare", "1 pod without a controller would be preempted and lost: nobody recreates them: shop/bare",
	}
	if o.Pods != 1 || o.Placed != 1 || !slices.Equal(o.Lost, []string{"shop/bare"}) || !slices.Equal(o.Notes, want) {
		t.Errorf("%s, lost %q, notes %q; want the one pod placed, shop/bare lost, and %q", count(o), o.Lost, o.Notes, want)
	}
}

// A namespace may be empty, or its Namespace object not readable.
func TestNewPlan_EvictAllIn(t *testing.T) {
	empty := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "empty"}}
	p := plan(t, []apiruntime.Object{node("a"), empty, running("batch", "one", "1", "a", "ReplicaSet")},
		whatif.Scenario{EvictAllIn: []string{"empty", "batch"}})
	want := []string{"namespace empty: 0 pods evicted, 0 to place again", "namespace batch: 1 pod evicted, 1 to place again"}
	check.Equal(t, "changes", want, p.Changes)
}

// An ownerReference may have any text.
func TestRun_HostileOwner(t *testing.T) {
	evicted := running("shop", "evicted", "9", "a", "Daemon\x1b[31mSet")
	evicted.OwnerReferences[0].Name = "x\nn2 drained\x1b[2J"
	objects := []apiruntime.Object{node("a"), evicted}
	o := runOn(t, plan(t, objects, whatif.Scenario{EvictAllIn: []string{"shop"}}), newScheduler(t, profiles, nil, objects), "")
	if want := `Daemon\x1b[31mSet shop/x n2 drained\x1b[2J`; len(o.Unschedulable) != 1 || o.Unschedulable[0].Of != want {
		t.Errorf("without a node: %+v, want one group of %q", o.Unschedulable, want)
	}
}

// quantileProfile compares the 95th percentile with the line.
const quantileProfile = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: packing
  plugins:
    multiPoint: {enabled: [{name: LoadThreshold}]}
  pluginConfig:
  - {name: LoadThreshold, args: {metricProvider: {type: Prometheus, address: "http://prometheus"}, thresholds: {cpu: 80}, statistic: P95, whenNoneFits: Reject}}
`

// A note says that a pod's usage cannot be subtracted from a quantile of its node. New nodes are idle.
func TestRun_Quantile(t *testing.T) {
	objects := []apiruntime.Object{node("a"), running("batch", "one", "1600m", "a", "ReplicaSet")}
	run := func(s whatif.Scenario) *whatif.Outcome {
		o := check.Value(plan(
			t, objects, s,
		).Run(t.Context(), newScheduler(t, quantileProfile, map[string]float64{"a": 0.5}, objects), whatif.RunOptions{Profiles: []string{"packing"}}))(t)
		return o
	}
	o := run(whatif.Scenario{EvictAllIn: []string{"batch"}})
	// 50 + 20 of the pod that is placed again
	if n := nodeNamed(t, o, "a"); percents(n) != [2]int{50, 70} || n.CPU.ByRequests {
		t.Errorf("a: %+v with %v %%, want from 50 to 70 %%, not by requests", n, percents(n))
	}
	if o.LineQuantile != 0.95 || len(o.Notes) != 1 || !strings.Contains(o.Notes[0], "compares quantile 0.95") {
		t.Errorf("quantile %v, notes %q; want 0.95, and a note", o.LineQuantile, o.Notes)
	}
	o = run(whatif.Scenario{AddNodes: 1, Like: "a", Manifest: deployment(t, "packing"), Replicas: ptr.To(17)})
	if n := nodeNamed(t, o, "a-new-1"); n.Placed == 0 || percents(n)[1] != 5*n.Placed || n.CPU.ByRequests || len(o.Notes) > 0 {
		t.Errorf("a-new-1: %+v with %v %%, notes %q; want 5 %% for each pod, not by requests, and no note", n, percents(n), o.Notes)
	}
}

// An evicted pod's measured usage is subtracted, if known: here 5 % instead of its request of 20 %.
func TestRun_EvictedUsageIsMeasured(t *testing.T) {
	objects := []apiruntime.Object{node("a"), running("batch", "one", "1600m", "a", "ReplicaSet")}
	p := plan(t, objects, whatif.Scenario{EvictAllIn: []string{"batch"}})
	for _, tc := range []struct {
		name  string
		usage source.PodUsage
	}{
		{"while it ran", source.PodUsage{Usage: 400}},
		{"over a window that it ran for", source.PodUsage{Usage: 400, Window: window}},
	} {
		o := check.Value(p.Run(t.Context(), newScheduler(t, profiles, map[string]float64{"a": 0.5}, objects), whatif.RunOptions{
			Profiles: []string{"packing"},
			Usages:   sim.MeasuredUsage{{Namespace: "batch", Pod: "one", Resource: load.CPU}: tc.usage},
		}))(t)
		// 50 − 5 + 20 = 65
		check.Equal(t, tc.name+": percent", [2]int{50, 65}, percents(nodeNamed(t, o, "a")))
	}
}

// New nodes are idle except for their DaemonSet's pod.
func TestRun_AddNodes(t *testing.T) {
	full := node("a")
	full.Spec.Unschedulable = true
	full.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
	objects := []apiruntime.Object{
		full,
		running("kube-system", "agent", "800m", "a", "DaemonSet"),
		running("shop", "web", "800m", "a", "ReplicaSet"),
	}
	p := plan(t, objects, whatif.Scenario{AddNodes: 2, Like: "a", Manifest: deployment(t, "packing"), Replicas: ptr.To(30)})
	o := runOn(t, p, newScheduler(t, profiles, map[string]float64{"a": 0.95}, objects), "")
	// Each has 10 % of its DaemonSet's pod and room for 14 pods of 5 %.
	if o.Placed != 28 || placed(o) != "a-new-1 14, a-new-2 14" {
		t.Errorf("%s: %s; want 14 on each new node", count(o), placed(o))
	}
	if n := nodeNamed(t, o, "a-new-1"); !n.New || percents(n) != [2]int{-1, 80} || n.CPU.ByRequests {
		t.Errorf("a-new-1: %+v with %v %%; want a new node at 80 %%, not by requests", n, percents(n))
	}
	check.Contains(t, strings.Join(p.Notes, "\n"), "New nodes count as idle")
}

// A waiting pod fits once a node is added. A pod of high priority goes first, and evicts one of low priority.
func TestRun_PendingAndPreemption(t *testing.T) {
	low := running("shop", "low", "7", "a", "ReplicaSet")
	high := st.MakePod().Namespace("shop").
		Name("high").UID("high").Priority(10).Req(map[corev1.ResourceName]string{"cpu": "6"}).SchedulerName("spreading").Obj()
	objects := []apiruntime.Object{node("a"), low, high}
	o := runOn(t, plan(t, objects, whatif.Scenario{Pending: true}), newScheduler(t, profiles, map[string]float64{"a": 0.2}, objects),
		"")
	if placed(o) != "a 1" || len(o.Preempted) != 1 || o.Preempted[0] != "shop/low" || o.Pods != 2 || len(o.Unschedulable) != 1 ||
		o.Unschedulable[0].Of != "ReplicaSet shop/low" {
		t.Errorf("%s: %s, preempted %v, unschedulable %+v; want high on a in place of low", count(o), placed(o), o.Preempted,
			o.Unschedulable)
	}
	o = runOn(t, plan(t, objects, whatif.Scenario{Pending: true, AddNodes: 1, Like: "a"}),
		newScheduler(t, profiles, map[string]float64{"a": 0.2}, objects), "")
	if placed(o) != "a-new-1 1" || len(o.Preempted) != 0 {
		t.Errorf("with a new node: %s, preempted %v; want high there, and nothing preempted", placed(o), o.Preempted)
	}
}

// On 8 cores, 18 pods of 440m fit: 7.92.
func TestRun_PodGroup(t *testing.T) {
	const cpu = "440m"
	all := []apiruntime.Object{node("a"), running("shop", "first", cpu, "a", "Job")}
	for i := range 20 {
		all = append(all, running("shop", fmt.Sprint("p", i), cpu, "", "Job"))
	}
	for _, object := range all[1:] {
		if !minortest.JoinPodGroup(object.(*corev1.Pod)) {
			t.Skip("this version of Kubernetes has no pod groups")
		}
	}
	waiting := slices.Concat(all[:1], all[2:])
	gated := all[2].(*corev1.Pod).DeepCopy()
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "later"}}
	urgent := running("shop", "urgent", "8", "", "Job")
	urgent.Spec.Priority = new(int32(1))
	for _, tt := range []struct {
		name    string
		minimum int
		objects []apiruntime.Object
		want    string
		said    string
	}{
		{
			"18 are too few", 19, waiting, "0 of 20 pods placed",
			"Group shop/group, minimum 19: 0 bound, 20 waiting. 18 of 20 fit: none is placed.",
		},
		{
			"18 suffice", 18, waiting, "18 of 20 pods placed",
			"Group shop/group, minimum 18: 0 bound, 20 waiting. 18 of 20 fit and are placed.",
		},
		{
			"17 suffice beside one that has a node", 18, all, "17 of 20 pods placed",
			"Group shop/group, minimum 18: 1 bound, 20 waiting. 17 of 20 fit and are placed.",
		},
		{
			"another pod is placed where the group is not", 19, slices.Concat(waiting, []apiruntime.Object{running("shop", "other", cpu, "", "Job")}),
			"1 of 21 pods placed", "Group shop/group, minimum 19: 0 bound, 20 waiting. 18 of 20 fit: none is placed.",
		},
		{
			"one is missing", 21, waiting, "0 of 20 pods placed",
			"Group shop/group, minimum 21: 0 bound, 20 waiting, 1 missing: none is placed.",
		},
		{
			"all wait for a gate", 1, []apiruntime.Object{all[0], gated}, "0 of 1 pods placed",
			"Group shop/group, minimum 1: 0 bound, 1 waiting.",
		},
		{ // urgent takes all of node a, and the pod that ran there finds no room
			"a bound pod is preempted", 1, []apiruntime.Object{all[0], all[1], urgent}, "1 of 2 pods placed",
			"Group shop/group, minimum 1: 0 bound, 1 waiting. 0 of 1 fit: none is placed.",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			group := &cluster.PodGroup{Namespace: "shop", Name: "group", MinCount: tt.minimum}
			o, err := plan(t, tt.objects, whatif.Scenario{Pending: true}).Run(t.Context(), newScheduler(t, profiles, nil, tt.objects),
				whatif.RunOptions{Profiles: []string{"packing"}, Groups: cluster.PodGroups{"shop/group": group}})
			check.OK(t, err)
			check.Equal(t, "placed", tt.want, count(o))
			check.Require(t, "groups", 1, len(o.Groups))
			check.Equal(t, "the group", tt.said, o.Groups[0].Message)
		})
	}
	// The pods that wait in the cluster are placed together with the one that is evicted.
	p := plan(t, all[:4], whatif.Scenario{Drain: []string{"a"}})
	check.Equal(t, "changes", "2 waiting group members to place", p.Changes[len(p.Changes)-1])
}

func TestReadFile_PodGroup(t *testing.T) {
	m := read(t, `
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: train}
spec: {schedulingPolicy: {gang: {minCount: 20}}, schedulingConstraints: {topology: [{key: rack}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: main, image: web}]}
`)
	check.Equal(t, "the group", &cluster.PodGroup{MinCount: 20, Partial: true}, m.PodGroups["default/train"])
	check.Equal(t, "ignored objects", 0, len(m.Ignored))
}

// A DaemonSet's controller places its pods, so there is nothing to try.
func TestPlan_DaemonSet(t *testing.T) {
	const agent = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: main, image: agent}]}
`
	objects := []apiruntime.Object{node("a")}
	_, err := whatif.NewPlan(objects, whatif.Scenario{Manifest: read(t, agent)})
	check.Error(t, err, "DaemonSet default/agent has a pod for each node")
	beside := read(t, agent+"---"+`
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: main, image: web}]}
`)
	p := plan(t, objects, whatif.Scenario{Manifest: beside})
	if want := "Ignored objects of the file: DaemonSet default/agent"; len(p.Notes) != 1 || p.Notes[0] != want {
		t.Errorf("notes %q, want %q", p.Notes, want)
	}
}

func TestPlan_BesideRunningPods(t *testing.T) {
	m := deployment(t, "packing")
	existing, _ := m.Workloads[0].Pod(0)
	existing.Spec.NodeName, existing.Status.Phase = "a", corev1.PodRunning
	objects := []apiruntime.Object{node("a"), existing}
	p := plan(t, objects, whatif.Scenario{Manifest: m, Replicas: ptr.To(1)})
	o := runOn(t, p, newScheduler(t, profiles, map[string]float64{"a": 0.2}, objects), "")
	if o.Placed != 1 || o.Placements[0].Pod == "shop/"+existing.Name {
		t.Errorf("%s: %+v; want another pod than the one that runs", count(o), o.Placements)
	}
	if want := "Deployment shop/web has 1 pod already, and gets 1 more"; len(p.Notes) != 1 || p.Notes[0] != want {
		t.Errorf("notes %q, want %q", p.Notes, want)
	}
}

func TestRun_ClaimsOfStatefulSets(t *testing.T) {
	m := read(t, `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {schedulerName: spreading, containers: [{name: main, image: db}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`)
	class := st.MakeStorageClass().Name("disks").VolumeBindingMode("Immediate").Provisioner("example.com/disks").Obj()
	class.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
	objects := []apiruntime.Object{node("a"), class}
	p := plan(t, objects, whatif.Scenario{Manifest: m})
	if o := runOn(t, p, newScheduler(t, profiles, nil, objects), ""); o.Placed != 1 ||
		!strings.Contains(strings.Join(p.Notes, ""), "StorageClass disks") {
		t.Errorf("%s, notes %q; want it placed, with a note on its volume", count(o), p.Notes)
	}
	objects = objects[:1] // without a class, no volume is provisioned
	p = plan(t, objects, whatif.Scenario{Manifest: m})
	if o := runOn(t, p, newScheduler(t, profiles, nil, objects), ""); o.Placed != 0 ||
		!strings.Contains(o.Unschedulable[0].Reason, "unbound immediate PersistentVolumeClaims") {
		t.Errorf("%s, %+v; want none, for its claim is not bound", count(o), o.Unschedulable)
	}
}

func TestRun_SchedulingGates(t *testing.T) {
	gated := st.MakePod().
		Namespace("shop").Name("gated").UID("gated").SchedulingGates([]string{"example.com/quota"}).SchedulerName("packing").Obj()
	objects := []apiruntime.Object{node("a"), gated}
	o := runOn(t, plan(t, objects, whatif.Scenario{Pending: true}), newScheduler(t, profiles, nil, objects), "")
	if o.Placed != 0 || !strings.Contains(o.Unschedulable[0].Reason, "example.com/quota") {
		t.Errorf("%s, %+v; want none, for its gate", count(o), o.Unschedulable)
	}
}

// A pod with spec.nodeName needs no scheduler. It is placed as if it needed one.
func TestNewPlan_NodeName(t *testing.T) {
	objects, cpu := threeNodes()
	m := read(
		t,
		"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {schedulerName: packing, nodeName: z, containers: [{name: m, image: i}]}\n",
	)
	p := plan(t, objects, whatif.Scenario{Manifest: m})
	o := runOn(t, p, newScheduler(t, profiles, cpu, objects), "")
	if o.Placed != 1 || len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "spec.nodeName is z") {
		t.Errorf("%s, notes %q; want it placed, and a note", count(o), p.Notes)
	}
}

func TestNewPlan_Mistakes(t *testing.T) {
	objects, _ := threeNodes()
	two := read(
		t,
		"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: m, image: i}]}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: q}\nspec: {containers: [{name: m, image: i}]}\n",
	)
	for _, tc := range []struct {
		name     string
		scenario whatif.Scenario
		want     string
	}{
		{"no such node to drain", whatif.Scenario{Drain: []string{"z"}}, `no node "z" to drain`},
		{"no such namespace", whatif.Scenario{EvictAllIn: []string{"nosuch"}}, `no namespace "nosuch" to evict pods in`},
		{"no such node to copy", whatif.Scenario{AddNodes: 1, Like: "z"}, `no node "z" to copy`},
		{"too many nodes", whatif.Scenario{AddNodes: whatif.MaxNodes + 1, Like: "a"}, "write from 1 to 10000"},
		{"replicas of two workloads", whatif.Scenario{Manifest: two, Replicas: ptr.To(3)}, "Pod default/p and Pod default/q"},
		{"too many pods", whatif.Scenario{Manifest: deployment(t, "packing"), Replicas: ptr.To(whatif.MaxPods + 1)}, "at most 100000 in all"},
	} {
		if _, err := whatif.NewPlan(objects, tc.scenario); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

// A controller deletes waiting pods first, and then pods of the node with most of them. Each used 10 % of its node.
func TestRun_ScalesDown(t *testing.T) {
	of := func(pod *corev1.Pod) *corev1.Pod {
		pod.Labels = map[string]string{"app": "web", "pod-template-hash": "1"}
		pod.OwnerReferences[0].Name = "web-1"
		return pod
	}
	waits := of(running("shop", "web-1-z", "800m", "", "ReplicaSet"))
	waits.Status.Phase = corev1.PodPending
	objects := []apiruntime.Object{
		node("a"), node("b"), of(running("shop", "web-1-x", "800m", "b", "ReplicaSet")), of(running("shop", "web-1-y", "800m", "b", "ReplicaSet")),
		of(running("shop", "web-1-w", "800m", "a", "ReplicaSet")), running("shop", "other", "800m", "a", "ReplicaSet"), waits,
	}
	p := plan(t, objects, whatif.Scenario{Manifest: deployment(t, "packing"), Fewer: 2, Pending: true})
	check.Equal(t, "Changes", []string{"1 waiting pod to place", "2 pods of Deployment shop/web removed, 2 left"}, p.Changes)
	o := runOn(t, p, newScheduler(t, profiles, map[string]float64{"a": 0.5, "b": 0.6}, objects), "")
	if b := nodeNamed(t, o, "b"); o.Pods != 0 || len(o.Nodes) != 1 || b.Evicted != 1 || percents(b) != [2]int{60, 50} {
		t.Errorf("%d pods to place, %d nodes, b from and to %v; want none, b alone, 60 %% and 50 %%", o.Pods, len(o.Nodes), percents(b))
	}
	_, err := whatif.NewPlan(objects, whatif.Scenario{Manifest: deployment(t, "packing"), Fewer: 5})
	check.Error(t, err, "5 pods fewer, but it has 4")
}

// A StatefulSet deletes the highest ordinal first: 10 before 9. A pod that a drain evicts is not placed again.
func TestRun_ScalesDownStatefulSet(t *testing.T) {
	objects := []apiruntime.Object{node("a"), node("b")}
	for _, at := range [][2]string{{"db-9", "a"}, {"db-10", "b"}, {"db-1", "a"}} {
		pod := running("shop", at[0], "800m", at[1], "StatefulSet")
		pod.OwnerReferences[0].Name = "db"
		objects = append(objects, pod)
	}
	m := read(t, `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: shop}
spec: {replicas: 3, selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}}, spec: {containers: [{name: main, image: db}]}}}
`)
	p := plan(t, objects, whatif.Scenario{Manifest: m, Fewer: 1, Drain: []string{"b"}})
	o := runOn(t, p, newScheduler(t, profiles, map[string]float64{"a": 0.5, "b": 0.6}, objects), "")
	if b := nodeNamed(t, o, "b"); o.Pods != 0 || b.Evicted != 1 || percents(b) != [2]int{60, 50} {
		t.Errorf("%d pods to place, b from and to %v; want none, and db-10 removed from b", o.Pods, percents(b))
	}
}

package explain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	pluginexplain "github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/minortest"
)

// byLoad has load lines of 80 and 90 %. It scores by load with a weight of 2, and by free requests with a weight of 1.
const byLoad = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      disabled: [{name: "*"}]
      enabled:
      - {name: PrioritySort}
      - {name: DefaultBinder}
      - {name: DefaultPreemption}
      - {name: LoadThreshold}
      - {name: TargetLoadPacking, weight: 2}
      - {name: NodeResourcesFit, weight: 1}
  pluginConfig:
  - {name: LoadThreshold, args: {thresholds: {cpu: 80, memory: 90}}}
  - {name: TargetLoadPacking, args: {targetUtilization: 40, defaultRequestsMultiplier: "2"}}
`

// workers are five nodes of 8 cores and 16 GiB, and their pods. One node takes no pods.
func workers() (loads, []runtime.Object) {
	return loads{"worker-1": 0.25, "worker-2": 0.50, "worker-3": 0.10, "hot": 0.782, "full": 0.05}, []runtime.Object{
		node("worker-1", "8"), node("worker-2", "8"), node("worker-3", "8"), node("hot", "8"), nodeWithRoomFor("full", "8", "0"),
		running(pod("running", "4", "8Gi"), "worker-1"),
		pod("placed", "272m", "1Gi").Node("hot").Obj(), // a moment ago
	}
}

func TestExplain_WorkedExample(t *testing.T) {
	l, objects := workers()
	r := explained(t, newScheduler(t, byLoad, l, objects...), explain.Options{Pod: pod("p", "200m", "1Gi").Obj()})

	// The load line counts what the pod requests, 200m of 8 cores; the score counts twice as much.
	var usages []string
	for _, u := range r.ExpectedUsage {
		usages = append(usages, fmt.Sprintf("%s %s %s: %s", u.Plugin, u.Resource, &u.Amount, u.Parts[0].Basis))
	}
	wantUsages := []string{
		"LoadThreshold cpu 200m: request of the pod", "LoadThreshold memory 1Gi: request of the pod",
		"TargetLoadPacking cpu 400m: 2 × request of container con0",
	}
	same(t, "expected usages", wantUsages, usages)

	wantOut := []explain.RuledOut{
		// 78.2 measured + 272m/8 = 3.4 pending + 200m/8 = 2.5 of the pod are 84.1 percent.
		{Plugin: "LoadThreshold", Reason: "node(s) above their cpu load line (80 percent)", Count: 1, Nodes: []explain.RuledOutNode{{
			Name: "hot", Limits: []pluginexplain.Limit{{Name: "cpu", Value: 84.1, Rule: "> 80", Unit: "%", Exceeded: true, Terms: []pluginexplain.Term{
				{Name: "measured", Value: 78.2, Unit: "%"}, {Name: "pending", Value: 3.4, Unit: "%"}, {Name: "this pod", Value: 2.5, Unit: "%"},
			}}},
		}}},
		{Plugin: "NodeResourcesFit", Reason: "Too many pods", Count: 1, Nodes: []explain.RuledOutNode{{Name: "full"}}},
	}
	same(t, "ruled out", wantOut, r.RuledOut, approximately)

	// Target 40, with 5 percent of the pod: 60·30/40 + 40 = 85; 60·15/40 + 40 = 62.5, rounded up; 40·45/60 = 30. Requests, the pod's
	// included, leave 1 − 4.2/8 = 47.5 and 1 − 9/16 = 43.75 percent free on worker-1. Cut to 47 and 43: 45. On the others 97 and 93:
	// 95.
	wantScores := map[string][]sim.Score{
		"worker-3": {
			{Plugin: "TargetLoadPacking", Normalized: 63, Weight: 2, Weighted: 126},
			{Plugin: "NodeResourcesFit", Normalized: 95, Weight: 1, Weighted: 95},
		},
		"worker-1": {
			{Plugin: "TargetLoadPacking", Normalized: 85, Weight: 2, Weighted: 170},
			{Plugin: "NodeResourcesFit", Normalized: 45, Weight: 1, Weighted: 45},
		},
		"worker-2": {
			{Plugin: "TargetLoadPacking", Normalized: 30, Weight: 2, Weighted: 60},
			{Plugin: "NodeResourcesFit", Normalized: 95, Weight: 1, Weighted: 95},
		},
	}
	var order []string
	for _, n := range r.Candidates {
		order = append(order, fmt.Sprintf("%d %s %d", n.Rank, n.Name, n.Total))
		scores := slices.DeleteFunc(slices.Clone(n.Scores), func(s sim.Score) bool { return s.Plugin == "LoadThreshold" })
		check.Equal(t, fmt.Sprintf("scores of %s", n.Name), wantScores[n.Name], scores)
	}
	same(t, "candidates", []string{"1 worker-3 221", "2 worker-1 215", "3 worker-2 155"}, order)
	want := explain.Decision{
		Nodes: []string{"worker-3"}, Total: 221, RunnerUp: "worker-1", Lead: 6,
		// Without requests, 170 are more than 126; without load, worker-2 has 95 too.
		Deciding:  []explain.Deciding{{Plugin: "NodeResourcesFit", NodesWithout: []string{"worker-1"}}},
		BreaksTie: []explain.Deciding{{Plugin: "TargetLoadPacking", NodesWithout: []string{"worker-2"}}},
	}
	same(t, "decision", want, r.Decision)
	if r.Nodes != 5 || r.FeasibleNodes != 3 || r.Profile != corev1.DefaultSchedulerName {
		t.Errorf("%d of %d nodes by %q, want 3 of 5 by the default profile", r.FeasibleNodes, r.Nodes, r.Profile)
	}
}

// Notes name the objects of a file that are not placed. A DaemonSet's controller places its pods.
func TestRun_IgnoredObjects(t *testing.T) {
	const manifest = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
---
apiVersion: apps/v1
kind: %s
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: web}]}
`
	configuration := check.File(t, "configuration", "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
	held := func(kind string) []runtime.Object {
		if kind == "Node" {
			return []runtime.Object{node("a", "8")}
		}
		return []runtime.Object{}
	}
	connection := (&cluster.Connection{Client: fake.NewClientset(), KubeConfig: &rest.Config{}, Namespace: "ns"}).Holding(held)
	run := func(kind string) (explain.Result, error) {
		return explain.Run(t.Context(), connection, explain.Request{
			Configuration: cluster.ConfigurationOptions{File: configuration}, File: "-", Stdin: strings.NewReader(fmt.Sprintf(manifest, kind)),
			Found: func(*cluster.Configuration) {},
		})
	}
	r := check.Value(run("Deployment"))(t)
	content := check.Value(json.Marshal(r))(t)
	if !strings.Contains(string(content), `"Ignored objects of the file: ConfigMap ns/settings"`) || !r.Fits() {
		t.Errorf("%s, want a note on the ConfigMap", content)
	}
	_, err := run("DaemonSet")
	check.Error(t, err, "DaemonSet ns/web has a pod for each node")
}

// Of the group, a prefers node m, and leaves the four cores of node n to b, though a was nominated to n. Then c and d find no room,
// and e, for which there is room, waits for its gate.
func TestRun_PodGroup(t *testing.T) {
	n, m := node("n", "4"), node("m", "1")
	a := pod("a", "1", "1Gi").NominatedNodeName("n").NodeAffinity(&corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 100, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"m"}},
			}},
		}},
	})
	members := []*corev1.Pod{
		a.Obj(), pod("b", "4", "1Gi").Obj(), pod("c", "1", "1Gi").Obj(), pod("d", "1", "1Gi").Obj(),
		pod("e", "0", "1Gi").SchedulingGates([]string{"later"}).Obj(),
	}
	pods := []runtime.Object{}
	for _, member := range members {
		if !minortest.JoinPodGroup(member) {
			t.Skip("this version of Kubernetes has no pod groups")
		}
		pods = append(pods, member)
	}
	members[0].TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	minimum := 3
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api/v1/namespaces/ns/pods/a":
			_ = json.NewEncoder(w).Encode(members[0])
		case "/apis/scheduling.k8s.io/v1beta1/podgroups":
			_, _ = fmt.Fprintf(w, `{"items": [{"metadata": {"namespace": "ns", "name": "group"}, "spec": {"schedulingPolicy": {"gang": {"minCount": %d}}}}]}`, minimum)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	connection := check.Value(cluster.Connect(&rest.Config{Host: server.URL}, "ns", false))(t).Holding(func(kind string) []runtime.Object {
		return map[string][]runtime.Object{"Node": {n, m}, "Pod": pods}[kind]
	})
	configuration := cluster.ConfigurationOptions{
		File: check.File(t, "configuration", "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"),
	}
	var lent *cluster.Cluster
	request := explain.Request{
		Configuration: configuration, Target: explain.Target{Kind: explain.Kinds()[0], Name: "a"}, Found: func(*cluster.Configuration) {},
		Lend: func(ctx context.Context, of *cluster.Configuration, use func(*cluster.Cluster) error) (bool, error) {
			if lent == nil {
				lent = check.Value(connection.Open(ctx, cluster.Options{Configuration: of.Decoded, Objects: append([]runtime.Object{n, m}, pods...)}))(t)
			}
			return true, use(lent)
		},
	}
	for range 2 { // the first time leaves nothing behind
		r := check.Value(explain.Run(t.Context(), connection, request))(t).(*explain.Explanation)
		check.Equal(t, "the group", "Group ns/group, minimum 3: 0 bound, 5 waiting. 2 of 5 fit: none is placed.", r.Group.Message)
		check.Equal(t, "the node of the pod alone, and whether it fits", [2]any{"n", false}, [2]any{r.Decision.Nodes[0], r.Fits()})
		for _, info := range check.Value(lent.NodeInfos(t.Context()))(t) {
			check.Equal(t, "pods on "+info.Node().Name, 0, len(info.GetPods()))
		}
	}

	// The next pod of a file is explained alone if others of its group are not created yet.
	minimum = 7
	request.Target, request.File = explain.Target{}, "-"
	request.Stdin = strings.NewReader(`{apiVersion: v1, kind: Pod, metadata: {name: f}, spec: {schedulingGroup: {podGroupName: group}, containers: [{name: c, image: i}]}}`)
	r := check.Value(explain.Run(t.Context(), connection, request))(t).(*explain.Explanation)
	check.Equal(t, "whether it fits, and its group", [2]bool{true, false}, [2]bool{r.Fits(), r.Group != nil})
	check.Contains(t, strings.Join(r.Notes, "\n"), "The pod belongs to group ns/group: what-if -f places all of its pods.")
}

// approximately compares percentages.
var approximately = cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })

func TestExplain_Top(t *testing.T) {
	l, objects := workers()
	s := newScheduler(t, byLoad, l, objects...)
	for top, want := range map[int]int{0: 3, 1: 1, 2: 2, 9: 3} {
		r := explained(t, s, explain.Options{Pod: pod("p", "200m", "1Gi").Obj(), Top: top})
		if len(r.Candidates) != want || r.Decision.RunnerUp != "worker-1" {
			t.Errorf("--top %d: %d candidates and runner-up %q, want %d and worker-1", top, len(r.Candidates), r.Decision.RunnerUp, want)
		}
	}
}

func TestExplain_EqualTotals(t *testing.T) {
	s := newScheduler(t, byLoad, loads{"a": 0.25, "b": 0.25, "c": 0.10}, node("c", "8"), node("b", "8"), node("a", "8"))
	r := explained(t, s, explain.Options{Pod: pod("p", "200m", "1Gi").Obj()})
	// 60·30/40 + 40 = 85 for both, 63 for c; requests are the same on all.
	want := explain.Decision{
		Nodes: []string{"a", "b"}, Total: 2*85 + 95, RunnerUp: "c", Lead: 2 * (85 - 63),
		BreaksTie: []explain.Deciding{{Plugin: "TargetLoadPacking", NodesWithout: []string{"c"}}},
	}
	same(t, "decision", want, r.Decision)
	check.Equal(t, "ranks", [3]int{1, 1, 3}, [3]int{r.Candidates[0].Rank, r.Candidates[1].Rank, r.Candidates[2].Rank})
}

func same(t *testing.T, what string, want, got any, options ...cmp.Option) {
	t.Helper()
	check.Equal(t, what, want, got, options...)
}

// A node that alone passes the filters is chosen without scores.
func TestExplain_OnlyNode(t *testing.T) {
	s := newScheduler(t, byLoad, loads{"a": 0.25, "b": 0.9}, node("a", "8"), node("b", "8"))
	r := explained(t, s, explain.Options{Pod: pod("p", "200m", "1Gi").Obj()})
	same(t, "decision", explain.Decision{Nodes: []string{"a"}}, r.Decision)
}

// Where the load line leaves no node, it is waived, and the least loaded node wins.
func TestExplain_RelaxedLimit(t *testing.T) {
	s := newScheduler(t, byLoad, loads{"a": 0.95, "b": 0.85, "full": 0.1}, node("a", "8"), node("b", "8"),
		nodeWithRoomFor("full", "8", "0"))
	r := explained(t, s, explain.Options{Pod: pod("p", "200m", "1Gi").Obj()})
	same(t, "decision", []string{"b"}, r.Decision.Nodes)
	if r.Relaxed == nil || !slices.Equal(r.Relaxed.Plugins, []string{"LoadThreshold"}) {
		t.Fatalf("relaxed %+v, want LoadThreshold", r.Relaxed)
	}
	groups := func(list []explain.RuledOut) (text []string) {
		for _, g := range list {
			text = append(text, fmt.Sprintf("%d by %s", g.Count, g.Plugin))
		}
		return text
	}
	same(t, "ruled out at first", []string{"2 by LoadThreshold", "1 by NodeResourcesFit"}, groups(r.Relaxed.RuledOut))
	if nodes := r.Relaxed.RuledOut[0].Nodes; nodes[0].Name != "b" { // 87.5 percent are nearer than 97.5
		t.Errorf("the first node is %s, want the one that is nearest to its limit", nodes[0].Name)
	}
	same(t, "ruled out", []string{"1 by NodeResourcesFit"}, groups(r.RuledOut))
}

func TestExplain_Preemption(t *testing.T) {
	low := running(pod("low", "6", "1Gi").Priority(1), "a")
	s := newScheduler(t, byLoad, loads{}, node("a", "8"), low, running(pod("equal", "2", "1Gi").Priority(10), "a"))
	r := explained(t, s, explain.Options{Pod: pod("p", "4", "1Gi").Priority(10).Obj()})
	want := &explain.Preemption{Node: "a", Victims: []explain.Victim{{Namespace: "ns", Name: "low", Priority: 1}}}
	if diff := cmp.Diff(want, r.Preemption); diff != "" || len(r.Decision.Nodes) > 0 {
		t.Errorf("decision %v, want none; preemption (-want +got):\n%s", r.Decision.Nodes, diff)
	}
	if want := "0/1 nodes are available: 1 Insufficient cpu."; !strings.HasPrefix(r.Decision.Event, want) {
		t.Errorf("event %q, want %q", r.Decision.Event, want)
	}
	r = explained(t, s, explain.Options{Pod: pod("q", "4", "1Gi").Priority(1).Obj()})
	if r.Preemption == nil || r.Preemption.Node != "" || r.Preemption.Message == "" {
		t.Errorf("preemption %+v for a pod of low priority, want none and why", r.Preemption)
	}
}

// The node of a placed pod counts neither its requests nor what is pending of it.
func TestExplain_PlacedPod(t *testing.T) {
	placed := pod("placed", "4", "8Gi").Node("a").Obj() // a moment ago: 4 of 8 cores are pending
	for _, tt := range []struct {
		name string
		load float64
		want explain.Placement
	}{
		// With 4 cores twice the score counts 100 percent of the pod: it is 0 on both nodes. Of requests the same is left.
		{"it would go there today too", 0.05, explain.Placement{Node: "a", Rank: 1}},
		// The load line: 35 percent measured and 50 of the pod.
		{"its node is ruled out", 0.35, explain.Placement{
			Node: "a", Differs: true, RuledOutBy: "LoadThreshold", Reason: "node(s) above their cpu load line (80 percent)",
			Limits: []pluginexplain.Limit{{Name: "cpu", Value: 85, Rule: "> 80", Unit: "%", Exceeded: true, Terms: []pluginexplain.Term{
				{Name: "measured", Value: 35, Unit: "%"}, {Name: "pending", Unit: "%"}, {Name: "this pod", Value: 50, Unit: "%"},
			}}},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScheduler(t, byLoad, loads{"a": tt.load, "b": 0.05}, node("a", "8"), node("b", "8"), placed)
			r := explained(t, s, explain.Options{Pod: placed, InCluster: true})
			same(t, "placement", &tt.want, r.Placement, approximately)
			const note = "The pod is explained as if it were not placed yet: a counts neither its requests nor its usage."
			same(t, "notes", []string{note}, r.Notes)
		})
	}
}

// The node of a placed pod counts no usage of it. Node a is at 45 %, and b at 70 %. The pod requests 30 % of a node.
func TestExplain_PlacedPodIsMeasured(t *testing.T) {
	placed := running(pod("placed", "2400m", "1600Mi"), "b")
	of := func(name string, milliCPU float64) sim.MeasuredUsage {
		return sim.MeasuredUsage{
			{Namespace: "ns", Pod: name, Resource: load.CPU}: {Usage: milliCPU}, {Namespace: "ns", Pod: name, Resource: load.Memory}: {},
		}
	}
	for _, tt := range []struct {
		name     string
		measured sim.MeasuredUsage
		// utilization is b's with the pod.
		utilization float64
		estimated   bool
	}{
		{"uses what it requests", of("placed", 2400), 70, false},     // 70 − 30 + 30
		{"uses less than it requests", of("placed", 800), 90, false}, // 70 − 10 + 30
		{"is not measured", nil, 70, true},                           // as if it used what it requests
		{"only another pod is measured", of("other", 800), 70, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScheduler(t, byLoad, loads{"a": 0.45, "b": 0.70}, node("a", "8"), node("b", "8"), placed)
			r := explained(t, s, explain.Options{Pod: placed, InCluster: true, Measured: tt.measured})
			same(t, "utilization", map[string]float64{"a": 75, "b": tt.utilization}, utilizations(r), approximately)
			if stays := tt.utilization < 80; r.Placement.Differs == stays || r.Placement.UsageEstimated != tt.estimated {
				t.Errorf("placement %+v; want that it stays: %v, estimated: %v", r.Placement, stays, tt.estimated)
			}
			if noted := slices.Contains(r.Notes, "The usage of the pod is not measured: what b counts of it is estimated."); noted != tt.estimated {
				t.Errorf("notes %q; want that usage is estimated: %v", r.Notes, tt.estimated)
			}
			// The next pod sees the measured load: 45 + 2.5 %, and 70 + 2.5 %.
			check.OK(t, s.Add(placed))
			next := explained(t, s, explain.Options{Pod: pod("next", "200m", "1Gi").Obj()})
			same(t, "utilization with the next pod", map[string]float64{"a": 47.5, "b": 72.5}, utilizations(next), approximately)
		})
	}
}

// utilizations returns the CPU utilization of each node as LoadThreshold sees it, in percent.
func utilizations(r *explain.Explanation) map[string]float64 {
	all := map[string]float64{}
	for _, out := range r.RuledOut {
		all[out.Nodes[0].Name] = out.Nodes[0].Limits[0].Value
	}
	for _, n := range r.Candidates {
		for _, of := range n.Terms {
			for _, term := range of.Terms {
				if of.Plugin == "LoadThreshold" && term.Name == "cpu utilization" {
					all[n.Name] = term.Value
				}
			}
		}
	}
	return all
}

func TestExplain_PlacedPodBehind(t *testing.T) {
	l, objects := workers()
	placed := running(pod("placed-2", "200m", "1Gi"), "worker-2")
	r := explained(t, newScheduler(t, byLoad, l, append(objects, placed)...), explain.Options{Pod: placed, InCluster: true})
	// As in the worked example, but worker-2 is at 50 − 2.5 + 5 = 52.5 %. That scores 40 · 47.5 / 60 = 32.
	// Differences are 126 − 64 and 95 − 95.
	same(t, "placement", &explain.Placement{
		Node: "worker-2", Differs: true, Rank: 3, Behind: 62, UsageEstimated: true,
		Differences: []explain.Difference{{Plugin: "TargetLoadPacking", Weighted: 62}, {Plugin: "NodeResourcesFit"}},
	}, r.Placement)
}

// A pod that has ended is no longer among the scheduler's objects, and runs nowhere.
func TestExplain_EndedPod(t *testing.T) {
	l, objects := workers()
	p := pod("p", "200m", "1Gi").Node("worker-2").Phase(corev1.PodSucceeded).Obj()
	r := explained(t, newScheduler(t, byLoad, l, objects...), explain.Options{Pod: p})
	if r.Placement != nil || !slices.Equal(r.Decision.Nodes, []string{"worker-3"}) ||
		!slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, "has ended (Succeeded)") }) {
		t.Errorf("decision %v, placement %+v, notes %q; want worker-3, no placement, and a note", r.Decision.Nodes, r.Placement, r.Notes)
	}
}

// A node that preemption made room on is taken whatever it scores.
func TestExplain_NominatedNode(t *testing.T) {
	l, objects := workers()
	p := pod("p", "200m", "1Gi").NominatedNodeName("worker-2").Obj()
	r := explained(t, newScheduler(t, byLoad, l, objects...), explain.Options{Pod: p})
	same(t, "decision", explain.Decision{Nodes: []string{"worker-2"}, Total: 155, Nominated: true}, r.Decision)
	p = pod("p", "200m", "1Gi").NominatedNodeName("hot").Obj()
	r = explained(t, newScheduler(t, byLoad, l, objects...), explain.Options{Pod: p})
	same(t, "nominated to a node that is ruled out", []string{"worker-3"}, r.Decision.Nodes)
}

func TestExplain_Notes(t *testing.T) {
	gated := pod("p", "200m", "1Gi").SchedulingGates([]string{"example.com/quota"}).Obj()
	r := explained(t, newScheduler(t, byLoad, loads{}, node("a", "8"), node("b", "8")), explain.Options{Pod: gated})
	check.Contains(t, strings.Join(r.Notes, "\n"), "gate example.com/quota")
}

// A DaemonSet's pod is exempt, whatever is known of load.
func TestExplain_Exempt(t *testing.T) {
	p := pod("p", "200m", "1Gi").Obj()
	p.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", UID: "agent", Controller: ptr.To(true)},
	}
	p.Spec.Affinity = &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchFields: []corev1.NodeSelectorRequirement{
					{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}},
				},
			}},
		}},
	}
	exempting := strings.Replace(byLoad, "thresholds:", "ignoreDaemonSets: true, thresholds:", 1)
	r := explained(t, newScheduler(t, exempting, loads{"a": 0.95}, node("a", "8")), explain.Options{Pod: p})
	check.Equal(t, "the filter is skipped, and the node", [2]any{true, []string{"a"}},
		[2]any{slices.Contains(r.SkippedFilters, "LoadThreshold"), r.Decision.Nodes})
}

// byPower scores by power and by the risk of overcommitment, and has a line on the 95th percentile.
const byPower = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      disabled: [{name: "*"}]
      enabled:
      - {name: PrioritySort}
      - {name: DefaultBinder}
      - {name: LoadThreshold}
      - {name: Peaks}
      - {name: LowRiskOverCommitment}
  pluginConfig:
  - {name: LoadThreshold, args: {metricProvider: {type: Prometheus, address: "http://prometheus"}, thresholds: {cpu: 80}, statistic: P95, whenNoneFits: Reject}}
  - {name: Peaks, args: {nodePowerModel: {a: {k0: 400, k1: -90, k2: -0.07}, b: {k0: 400, k1: -90, k2: -0.07}, small: {k0: 400, k1: -90, k2: -0.07}}}}
`

func TestExplain_Quantile(t *testing.T) {
	r := explained(t, newScheduler(t, byPower, loads{"a": 0.25, "b": 0.79}, node("a", "8"), node("b", "8")),
		explain.Options{Pod: pod("p", "200m", "1Gi").Obj()})
	if len(r.RuledOut) != 1 || r.RuledOut[0].Nodes[0].Limits[0].Terms[0].Name != "measured, quantile 0.95" {
		t.Errorf("ruled out %+v, want b, by its measured quantile", r.RuledOut)
	}
	// A quantile still includes the pod: 79 + 30 %.
	placed := running(pod("placed", "2400m", "1Gi"), "b")
	s := newScheduler(t, byPower, loads{"a": 0.25, "b": 0.79}, node("a", "8"), node("b", "8"), placed)
	r = explained(t, s, explain.Options{Pod: placed, InCluster: true})
	same(t, "utilization", 109.0, r.Placement.Limits[0].Value, approximately)
}

// Peaks has no finite cost for a node that the pod takes beyond its capacity. LowRiskOverCommitment does not score a pod without
// requests and limits. JSON has no infinity.
func TestExplain_PeaksAndLowRiskOverCommitment(t *testing.T) {
	unlimited := strings.Replace(byPower, "statistic: P95, whenNoneFits: Reject", "missingLoad: Pass, exempt: {podSelector: {}}", 1)
	s := newScheduler(t, unlimited, loads{"a": 0.25, "b": 0.5, "small": 0.9}, node("a", "8"), node("b", "8"), node("small", "1"))
	r := explained(t, s, explain.Options{Pod: pod("p", "200m", "1Gi").Obj()})
	check.Value(json.Marshal(r))(t)
	of := func(node, plugin string) sim.PluginTerms {
		t.Helper()
		for _, n := range r.Candidates {
			if i := slices.IndexFunc(n.Terms, func(t sim.PluginTerms) bool { return t.Plugin == plugin }); n.Name == node && i >= 0 {
				return n.Terms[i]
			}
		}
		t.Fatalf("no terms of %s for %s", plugin, node)
		return sim.PluginTerms{}
	}
	has := func(terms sim.PluginTerms, name string) bool {
		return slices.ContainsFunc(terms.Terms, func(t pluginexplain.Term) bool { return t.Name == name })
	}
	if fits, full := of("a", "Peaks"), of("small",
		"Peaks"); fits.Score == nil || !has(fits, "power with the pod") || full.Score != nil || has(full, "power") {
		t.Errorf("Peaks has the terms %+v for a and %+v for small; want a finite cost and powers for a alone", fits, full)
	}
	if terms := of("a", "LowRiskOverCommitment"); !has(terms, "cpu risk by limits") || !has(terms, "cpu risk by load") ||
		terms.Limited {
		t.Errorf("LowRiskOverCommitment has the terms %+v, want both risks, and no limit", terms)
	}
	for _, u := range r.ExpectedUsage {
		if u.PeakParts != nil || len(u.Parts) != 1 || u.Parts[0].Basis != "request of the pod" {
			t.Errorf("%s expects %+v, want the request of the pod, and no peak", u.Plugin, u)
		}
	}
	r = explained(t, s,
		explain.Options{Pod: st.MakePod().Namespace("ns").Name("q").UID("q").SchedulerName(corev1.DefaultSchedulerName).Obj()})
	check.Equal(t, "the score is skipped", true, slices.Contains(r.SkippedScores, "LowRiskOverCommitment"))
}

func TestExplain_UnknownProfile(t *testing.T) {
	s := newScheduler(t, byLoad, loads{}, node("a", "8"))
	_, err := explain.Explain(t.Context(), s, explain.Options{Pod: pod("p", "1", "1Gi").SchedulerName("other").Obj()})
	check.Error(t, err, `"other"`, corev1.DefaultSchedulerName)
}

// On any cluster, scores add up to totals, and the winners have the highest total. Brute force finds the same deciding plugins.
func TestExplain_AnyCluster(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l, objects := loads{}, []runtime.Object(nil)
		for i := range rapid.IntRange(1, 8).Draw(rt, "nodes") {
			name := fmt.Sprint("n", i)
			l[name] = float64(rapid.IntRange(0, 20).Draw(rt, "load")) / 20
			objects = append(objects, node(name, "8"))
			if cpu := rapid.IntRange(0, 8).Draw(rt, "requested"); cpu > 0 {
				objects = append(objects, running(pod("on-"+name, fmt.Sprint(cpu), "1Gi"), name))
			}
		}
		s := newScheduler(t, byLoad, l, objects...)
		r := explained(t, s, explain.Options{Pod: pod("p", fmt.Sprint(rapid.IntRange(0, 4).Draw(rt, "cpu")), "1Gi").Obj()})
		ruledOut := 0
		for _, g := range r.RuledOut {
			ruledOut += g.Count
		}
		if ruledOut+r.FeasibleNodes != r.Nodes || len(r.Candidates) != r.FeasibleNodes {
			rt.Fatalf("%d ruled out and %d candidates, of %d nodes", ruledOut, len(r.Candidates), r.Nodes)
		}
		for i, n := range r.Candidates {
			sum := int64(0)
			for _, score := range n.Scores {
				if score.Weighted != score.Normalized*score.Weight || score.Normalized < 0 || score.Normalized > 100 {
					rt.Fatalf("%+v", score)
				}
				sum += score.Weighted
			}
			if sum != n.Total || i > 0 && n.Total > r.Candidates[i-1].Total {
				rt.Fatalf("%s: the scores add up to %d, the total is %d", n.Name, sum, n.Total)
			}
		}
		if len(r.Candidates) == 0 {
			return
		}
		// bestWithout returns the nodes with the highest sum over all plugins but one.
		bestWithout := func(plugin string) map[string]bool {
			best, highest := map[string]bool{}, int64(-1)
			for _, n := range r.Candidates {
				sum := int64(0)
				for _, score := range n.Scores {
					if score.Plugin != plugin {
						sum += score.Weighted
					}
				}
				if sum > highest {
					best, highest = map[string]bool{}, sum
				}
				if sum == highest {
					best[n.Name] = true
				}
			}
			return best
		}
		winners := bestWithout("")
		if len(winners) != len(r.Decision.Nodes) || !winners[r.Decision.Nodes[0]] {
			rt.Fatalf("%v win, want %v", r.Decision.Nodes, winners)
		}
		for _, score := range r.Candidates[0].Scores {
			without := bestWithout(score.Plugin)
			var others []string
			for _, n := range r.Candidates {
				if without[n.Name] && !winners[n.Name] {
					others = append(others, n.Name)
				}
			}
			reported := func(list []explain.Deciding) []string {
				for _, d := range list {
					if d.Plugin == score.Plugin {
						return d.NodesWithout
					}
				}
				return nil
			}
			var deciding, breaksTie []string
			if len(others) == len(without) {
				deciding = others
			} else {
				breaksTie = others
			}
			if !slices.Equal(reported(r.Decision.Deciding), deciding) || !slices.Equal(reported(r.Decision.BreaksTie), breaksTie) {
				rt.Fatalf("%s decides against %v and breaks a tie with %v; want %v and %v", score.Plugin,
					reported(r.Decision.Deciding), reported(r.Decision.BreaksTie), deciding, breaksTie)
			}
		}
	})
}

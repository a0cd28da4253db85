package incrementalpodtopologyspread

import (
	"fmt"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	inTree "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/podindex"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/minortest"
	"github.com/plimsoll-scheduler/plimsoll/test/plugintest"
)

func TestMain(m *testing.M) {
	metrics.Register() // the stock plugin counts its goroutines
	os.Exit(m.Run())
}

// TestAnswersAsTheStockPlugin compares with the stock plugin while pods, labels, namespaces and nodes change at random.
func TestAnswersAsTheStockPlugin(t *testing.T) {
	plugintest.CompareAnswers(t, func(seed uint64) (_ *plugintest.World, stock, ours plugintest.Spreader) {
		w, args := newWorld(seed), &schedulerconfig.PodTopologySpreadArgs{DefaultingType: schedulerconfig.SystemDefaulting}
		if seed%4 == 3 {
			args = &schedulerconfig.PodTopologySpreadArgs{
				DefaultingType: schedulerconfig.ListDefaulting,
				DefaultConstraints: []corev1.TopologySpreadConstraint{
					{MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway},
					{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule},
				},
			}
		}
		stock, ours = w.plugins(t, args)
		return w.World, stock, ours
	})
}

// TestAnswersAsTheStockPlugin_PodGroups changes pods without a new generation, as the cycles of pod groups do.
func TestAnswersAsTheStockPlugin_PodGroups(t *testing.T) {
	w := newWorld(1)
	args := &schedulerconfig.PodTopologySpreadArgs{DefaultingType: schedulerconfig.SystemDefaulting}
	stock, ours := w.plugins(t, args)
	for range 50 {
		w.Change()
	}
	same := func(state func() fwk.CycleState) {
		t.Helper()
		for range 10 {
			q := plugintest.Question{Pod: w.pod("incoming", ""), Nodes: w.Nodes}
			want := q.Ask(t.Context(), stock, state())
			got := q.Ask(t.Context(), ours, state())
			check.Equal(t, "answers", want.Said, got.Said)
		}
	}
	group, single := func() fwk.CycleState { return minortest.PodGroupCycle(t) }, func() fwk.CycleState { return framework.NewCycleState() }
	same(single)
	for range 20 {
		node := w.Any()
		generation, pods := node.Generation, []*corev1.Pod{}
		for i := range 5 {
			pods = append(pods, w.pod(fmt.Sprint("group-", i), node.Node().Name))
			node.AddPodInfo(plugintest.PodInfo(pods[i]))
			node.Generation = generation
		}
		same(group)
		assumed := w.pod("assumed", node.Node().Name)
		pod, states, plugins := assumed.DeepCopy(), [2]fwk.CycleState{group(), group()}, [2]plugintest.Spreader{stock, ours}
		var scores [2]int64
		for i, pl := range plugins {
			if status := pl.PreScore(t.Context(), states[i], pod, w.Nodes); status.IsSkip() {
				plugins = [2]plugintest.Spreader{}
				break
			}
		}
		pods = append(pods, assumed) // as assume does, before Reserve of DecisionRecord scores once more
		node.AddPodInfo(plugintest.PodInfo(assumed))
		node.Generation = generation
		for i, pl := range plugins {
			if pl != nil {
				scores[i], _ = pl.Score(t.Context(), states[i], pod, node)
			}
		}
		check.Equal(t, "score after the pod is assumed", scores[0], scores[1])
		for _, pod := range pods {
			check.OK(t, node.RemovePod(klog.Background(), pod))
			node.Generation = generation
		}
		same(single)
	}
}

// A state stays right when another pod was counted after it.
func TestScore_OfAnEarlierState(t *testing.T) {
	w := newWorld(3)
	args := &schedulerconfig.PodTopologySpreadArgs{DefaultingType: schedulerconfig.SystemDefaulting}
	stock, ours := w.plugins(t, args)
	for range 50 {
		w.Change()
	}
	scored := 0
	for range 50 {
		var scores [2][]int64
		pods := []*corev1.Pod{w.pod("first", ""), w.pod("second", "")}
		for i, pl := range []plugintest.Spreader{stock, ours} {
			states := []fwk.CycleState{framework.NewCycleState(), framework.NewCycleState()}
			skipped := false
			for j, pod := range pods {
				skipped = pl.PreScore(t.Context(), states[j], pod, w.Nodes).IsSkip() || skipped
			}
			for _, node := range w.Nodes {
				if !skipped {
					score, _ := pl.Score(t.Context(), states[0], pods[0], node)
					scores[i] = append(scores[i], score)
				}
			}
		}
		check.Equal(t, "scores", scores[0], scores[1])
		scored += len(scores[0])
	}
	if scored == 0 {
		t.Error("no node was scored")
	}
}

// world is a cluster whose pods spread.
type world struct{ *plugintest.World }

func newWorld(seed uint64) *world {
	w := &world{World: plugintest.NewWorld(seed)}
	w.MakeNode, w.MakePod = w.node, w.pod
	return w
}

// plugins returns the stock plugin and ours, and makes owners of pods.
func (w *world) plugins(t *testing.T, args *schedulerconfig.PodTopologySpreadArgs) (stock, ours plugintest.Spreader) {
	t.Helper()
	w.addOwners(t)
	stock = check.Value(inTree.NewInTreeRegistry()[names.PodTopologySpread](t.Context(), args, w))(t).(plugintest.Spreader)
	return stock, check.Value(New(t.Context(), args, w, podindex.New()))(t)
}

// addOwners makes a Service and a ReplicaSet, whose pods are spread by default.
func (w *world) addOwners(t *testing.T) {
	t.Helper()
	for i := range 2 {
		namespace := fmt.Sprint("ns-", i)
		check.OK(t, w.SharedInformerFactory().Core().V1().Services().Informer().GetIndexer().Add(&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
			Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "app-0"}},
		}))
		check.OK(t, w.SharedInformerFactory().Apps().V1().ReplicaSets().Informer().GetIndexer().Add(&appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
			Spec:       appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "app-1"}}},
		}))
	}
}

func (w *world) node(name string) *corev1.Node {
	node := st.MakeNode().Name(name).Label("disk", w.One("kind-", 2))
	if w.IntN(20) > 0 {
		node.Label(corev1.LabelHostname, name)
	}
	if w.IntN(8) > 0 {
		node.Label(corev1.LabelTopologyZone, []string{"", "zone-1", "zone-2"}[w.IntN(3)])
	}
	if w.IntN(4) == 0 {
		node.Taints([]corev1.Taint{{Key: "dedicated", Value: "x", Effect: corev1.TaintEffectNoSchedule}})
	}
	return node.Obj()
}

func (w *world) pod(name, node string) *corev1.Pod {
	pod := st.MakePod().Namespace(w.One("ns-", 3)).Name(name).UID(name).Node(node)
	if w.IntN(6) > 0 {
		pod.Label("app", w.One("app-", 3))
	}
	if w.IntN(2) == 0 {
		pod.OwnerReference("web", appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
	}
	if w.IntN(2) == 0 {
		pod.Label("version", w.One("v", 2))
	}
	switch w.IntN(8) {
	case 0, 1:
		pod.NodeSelector(map[string]string{"disk": w.One("kind-", 2)})
	case 2:
		pod.NodeAffinityNotIn("disk", []string{w.One("kind-", 2)})
	case 3:
		pod.Terminating()
	}
	if w.IntN(4) == 0 {
		pod.Toleration("dedicated")
	}
	for range w.IntN(3) {
		pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, w.constraint(pod.Obj()))
	}
	return pod.Obj()
}

func (w *world) constraint(pod *corev1.Pod) corev1.TopologySpreadConstraint {
	selector := []*metav1.LabelSelector{
		{MatchLabels: map[string]string{"app": pod.Labels["app"]}}, {MatchLabels: map[string]string{"app": "app-1"}},
		{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}}}, {}, nil,
		{MatchLabels: map[string]string{"app": "app-1", "version": "v1"}},
		{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"app-0"}},
		}},
	}[max(w.IntN(10)-3, 0)]
	c := corev1.TopologySpreadConstraint{
		MaxSkew: int32(1 + w.IntN(2)), LabelSelector: selector, WhenUnsatisfiable: corev1.DoNotSchedule,
		TopologyKey: []string{corev1.LabelTopologyZone, corev1.LabelHostname, "disk"}[w.IntN(3)],
	}
	if w.IntN(2) == 0 {
		c.WhenUnsatisfiable = corev1.ScheduleAnyway
	} else if w.IntN(4) == 0 {
		c.MinDomains = ptr.To(int32(1 + w.IntN(4)))
	}
	if w.IntN(2) == 0 {
		c.NodeTaintsPolicy = ptr.To(corev1.NodeInclusionPolicyHonor)
	}
	if w.IntN(4) == 0 {
		c.NodeAffinityPolicy = ptr.To(corev1.NodeInclusionPolicyIgnore)
	}
	if w.IntN(3) == 0 {
		c.MatchLabelKeys = []string{"version"}
	}
	return c
}

// A taint that the pod does not tolerate takes the only node of a zone away, and so one of two domains.
func TestDomains_ChangeWithTaints(t *testing.T) {
	pl, nodes := &IncrementalPodTopologySpread{index: podindex.New()}, []fwk.NodeInfo{}
	for _, zone := range []string{"a", "b"} {
		node := framework.NewNodeInfo()
		node.SetNode(st.MakeNode().Name(zone).Label(corev1.LabelTopologyZone, zone).Obj())
		nodes = append(nodes, node)
	}
	c := []constraint{{key: corev1.LabelTopologyZone, honorsTaints: true}}
	domains := func() int {
		pl.index.Sync(framework.NewCycleState(), nodes)
		e := pl.eligibility(klog.Background(), &corev1.Pod{}, c, true)
		return pl.domainsOf(&e, &c[0])
	}
	check.Equal(t, "domains", 2, domains())
	tainted := nodes[1].Node().DeepCopy()
	tainted.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
	nodes[1].(*framework.NodeInfo).SetNode(tainted)
	check.Equal(t, "domains with a taint", 1, domains())
}

// TestDomains_Bounds fails if what pods of tenants name is kept without bound.
func TestDomains_Bounds(t *testing.T) {
	pl := &IncrementalPodTopologySpread{index: podindex.New()}
	node := framework.NewNodeInfo()
	node.SetNode(st.MakeNode().Name("n").Obj())
	pl.index.Sync(framework.NewCycleState(), []fwk.NodeInfo{node})
	for i := range 3 * maxDomains {
		c := []constraint{{key: fmt.Sprint("key-", i), honorsAffinity: true}}
		pod := st.MakePod().NodeSelector(map[string]string{"a": strings.Repeat("x", i)}).Obj()
		e := pl.eligibility(klog.Background(), pod, c, true)
		pl.domainsOf(&e, &c[0])
		for key := range pl.domains {
			if len(key.pod) > maxText {
				t.Fatalf("%d bytes of a pod are kept", len(key.pod))
			}
		}
		if len(pl.domains) > maxDomains {
			t.Fatalf("%d numbers of domains are kept", len(pl.domains))
		}
	}
}

// A pod with 9 constraints, and one that selects more classes than there are nodes, are left to the stock plugin. Both plugins give
// the same answers by other tests; here the state tells which of them answered.
func TestLeavesDearDecisionsToTheStockPlugin(t *testing.T) {
	w := newWorld(0)
	w.Size = 2
	args := &schedulerconfig.PodTopologySpreadArgs{DefaultingType: schedulerconfig.SystemDefaulting}
	ours := check.Value(New(t.Context(), args, w, podindex.New()))(t)
	for len(w.Nodes) < w.Size {
		w.Add()
	}
	all := w.Nodes[0].(*framework.NodeInfo)
	for i := range 100 { // 32 classes are always cheap
		all.AddPod(st.MakePod().Namespace("ns").Name(fmt.Sprint(i)).UID(fmt.Sprint(i)).Label("app", "db").Label("pod", fmt.Sprint(i)).
			Node(all.Node().Name).Obj())
	}
	spread := func(constraints int, selector string) *corev1.Pod {
		pod := st.MakePod().Namespace("ns").Name("p").UID("p").Obj()
		for range constraints {
			pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
				MaxSkew: 1, TopologyKey: "disk", WhenUnsatisfiable: corev1.DoNotSchedule,
				LabelSelector: check.Value(metav1.ParseToLabelSelector(selector))(t),
			})
		}
		return pod
	}
	for _, tt := range []struct {
		pod  *corev1.Pod
		want bool
	}{{spread(1, "pod=1"), true}, {spread(maxConstraints, "pod=1"), true}, {spread(maxConstraints+1, "pod=1"), false}, {spread(1, "app=db"), false}} {
		state := framework.NewCycleState()
		if _, status := ours.PreFilter(t.Context(), state, tt.pod, w.Nodes); !status.IsSuccess() {
			t.Fatal(status)
		}
		if got := podindex.StateOf[*filterState](state, filterKey) != nil; got != tt.want {
			t.Errorf("%d constraints, the first by %v: counted by the index: %v, want %v", len(tt.pod.Spec.TopologySpreadConstraints),
				tt.pod.Spec.TopologySpreadConstraints[0].LabelSelector, got, tt.want)
		}
	}
}

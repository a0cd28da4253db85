package incrementalpodtopologyspread

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	inTree "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/minortest"
	"github.com/plimsoll-scheduler/plimsoll/test/plugintest"
)

func TestMain(m *testing.M) {
	metrics.Register() // the stock plugin counts its goroutines
	os.Exit(m.Run())
}

// handle is a handle on a list of nodes.
type handle struct {
	*plugintest.Handle
	minor.NodeInfoLister
	nodes []fwk.NodeInfo
}

func (h *handle) SnapshotSharedLister() minor.SharedLister { return lister{h: h} }

type lister struct {
	minor.SharedLister
	h *handle
}

func (l lister) NodeInfos() minor.NodeInfoLister { return l.h }

func (h *handle) List() ([]fwk.NodeInfo, error) { return h.nodes, nil }

// TestAnswersAsTheStockPlugin compares with the stock plugin while pods, labels, namespaces and nodes change at random. With
// SPREAD_SEEDS=N, it does so in N clusters.
func TestAnswersAsTheStockPlugin(t *testing.T) {
	seeds, err := strconv.Atoi(os.Getenv("SPREAD_SEEDS"))
	if err != nil {
		seeds = 60
	}
	var compared, filtered, scored, refused int
	for seed := range seeds {
		w := newWorld(uint64(seed))
		args := &schedulerconfig.PodTopologySpreadArgs{DefaultingType: schedulerconfig.SystemDefaulting}
		if seed%4 == 3 {
			args = &schedulerconfig.PodTopologySpreadArgs{
				DefaultingType: schedulerconfig.ListDefaulting,
				DefaultConstraints: []corev1.TopologySpreadConstraint{
					{MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway},
					{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule},
				},
			}
		}
		stock, ours := w.plugins(t, args)
		for step := range 60 {
			w.change()
			for range 3 {
				q := plugintest.Question{Pod: w.pod("incoming", ""), Nodes: w.nodes, Strangers: w.strangers(), Changed: w.changes()}
				want := q.Ask(t.Context(), stock, framework.NewCycleState())
				got := q.Ask(t.Context(), ours, framework.NewCycleState())
				if !slices.Equal(want.Said, got.Said) {
					check.Equal(t, fmt.Sprint("seed ", seed, ", step ", step), want.Said, got.Said)
					return
				}
				compared += len(want.Said)
				for n, when := range map[*int]bool{
					&filtered: want.Filtered, &scored: want.Scored, &refused: want.Passed < len(w.nodes),
				} {
					if when {
						*n++
					}
				}
			}
		}
	}
	t.Logf("%d answers; %d pods filtered, %d scored, %d with refused nodes", compared, filtered, scored, refused)
	if least := 10 * seeds; filtered < least || scored < least || refused < least {
		t.Errorf("%d pods filtered, %d scored, %d with refused nodes: too few to say that both plugins are alike", filtered, scored, refused)
	}
}

// TestAnswersAsTheStockPlugin_PodGroups changes pods without a new generation, as the cycles of pod groups do.
func TestAnswersAsTheStockPlugin_PodGroups(t *testing.T) {
	w := newWorld(1)
	args := &schedulerconfig.PodTopologySpreadArgs{DefaultingType: schedulerconfig.SystemDefaulting}
	stock, ours := w.plugins(t, args)
	for range 50 {
		w.change()
	}
	same := func(state func() fwk.CycleState) {
		t.Helper()
		for range 10 {
			q := plugintest.Question{Pod: w.pod("incoming", ""), Nodes: w.nodes}
			want := q.Ask(t.Context(), stock, state())
			got := q.Ask(t.Context(), ours, state())
			check.Equal(t, "answers", want.Said, got.Said)
		}
	}
	group, single := func() fwk.CycleState { return minortest.PodGroupCycle(t) }, func() fwk.CycleState { return framework.NewCycleState() }
	same(single)
	for range 20 {
		node := w.any()
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
			if status := pl.PreScore(t.Context(), states[i], pod, w.nodes); status.IsSkip() {
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
		w.change()
	}
	scored := 0
	for range 50 {
		var scores [2][]int64
		pods := []*corev1.Pod{w.pod("first", ""), w.pod("second", "")}
		for i, pl := range []plugintest.Spreader{stock, ours} {
			states := []fwk.CycleState{framework.NewCycleState(), framework.NewCycleState()}
			skipped := false
			for j, pod := range pods {
				skipped = pl.PreScore(t.Context(), states[j], pod, w.nodes).IsSkip() || skipped
			}
			for _, node := range w.nodes {
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

// world is a cluster that changes at random.
type world struct {
	*rand.Rand
	*handle
	size int
	made int
}

func newWorld(seed uint64) *world {
	r := rand.New(rand.NewPCG(seed, 1))
	sizes := []int{1, 3, 10, 30, 100, 400}
	return &world{Rand: r, handle: &handle{Handle: plugintest.NewHandle()}, size: sizes[int(seed)%len(sizes)]}
}

func (w *world) one(prefix string, n int) string { return fmt.Sprint(prefix, w.IntN(n)) }

// plugins returns the stock plugin and ours, and makes owners of pods.
func (w *world) plugins(t *testing.T, args *schedulerconfig.PodTopologySpreadArgs) (stock, ours plugintest.Spreader) {
	t.Helper()
	w.addOwners(t)
	stock = check.Value(inTree.NewInTreeRegistry()[names.PodTopologySpread](t.Context(), args, w))(t).(plugintest.Spreader)
	return stock, check.Value(New(t.Context(), args, w))(t)
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

func (w *world) any() *framework.NodeInfo { return w.nodes[w.IntN(len(w.nodes))].(*framework.NodeInfo) }

func (w *world) node(name string) *corev1.Node {
	node := st.MakeNode().Name(name).Label("disk", w.one("kind-", 2))
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
	pod := st.MakePod().Namespace(w.one("ns-", 3)).Name(name).UID(name).Node(node)
	if w.IntN(6) > 0 {
		pod.Label("app", w.one("app-", 3))
	}
	if w.IntN(2) == 0 {
		pod.OwnerReference("web", appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
	}
	if w.IntN(2) == 0 {
		pod.Label("version", w.one("v", 2))
	}
	switch w.IntN(8) {
	case 0, 1:
		pod.NodeSelector(map[string]string{"disk": w.one("kind-", 2)})
	case 2:
		pod.NodeAffinityNotIn("disk", []string{w.one("kind-", 2)})
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

// change makes several changes.
func (w *world) change() {
	for len(w.nodes) < w.size {
		w.add()
	}
	for range 1 + w.IntN(12) {
		w.made++
		switch node := w.any(); w.IntN(20) {
		case 0:
			w.nodes = slices.Clone(w.nodes)
			w.add()
		case 1:
			if i := w.IntN(len(w.nodes)); len(w.nodes) > 1 {
				w.nodes = slices.Delete(slices.Clone(w.nodes), i, i+1)
			}
		case 2:
			changed := w.node(node.Node().Name)
			if w.IntN(2) == 0 { // only taints change
				changed.Labels = node.Node().Labels
			}
			node.SetNode(changed)
		case 3, 4:
			w.remove(node)
		case 5: // as a snapshot that changes on its own
			i := w.IntN(len(w.nodes))
			w.nodes = slices.Clone(w.nodes)
			w.nodes[i] = w.nodes[i].Snapshot()
		case 6, 7, 8:
			if pod := w.remove(node); pod != nil {
				changed := pod.DeepCopy()
				changed.Labels = map[string]string{"app": w.one("app-", 3)}
				node.AddPod(changed)
			}
		default:
			for range 1 + w.IntN(3) {
				w.made++
				node.AddPod(w.pod(fmt.Sprint("pod-", w.made), node.Node().Name))
			}
		}
	}
}

func (w *world) add() {
	w.made++
	node := framework.NewNodeInfo()
	node.SetNode(w.node(fmt.Sprint("node-", w.made)))
	w.nodes = append(w.nodes, node)
}

func (w *world) remove(node *framework.NodeInfo) *corev1.Pod {
	if len(node.Pods) == 0 {
		return nil
	}
	pod := node.Pods[w.IntN(len(node.Pods))].GetPod()
	if err := node.RemovePod(klog.Background(), pod); err != nil {
		panic(err)
	}
	return pod
}

// changes are what preemption tries: pods of one node go, and some come back; and a nominated pod comes.
func (w *world) changes() (all []plugintest.Change) {
	for range 2 {
		c := plugintest.Change{Node: w.any()}
		for _, info := range c.Node.GetPods() {
			c.Pods = append(c.Pods, info.GetPod())
		}
		if len(c.Pods) > 0 {
			back := c.Pods[0].DeepCopy()
			back.Spec.NodeName = ""
			c.Pods = append(c.Pods, back)
		}
		nominated := plugintest.Change{Node: c.Node}
		for range 1 + w.IntN(4) {
			nominated.Pods = append(nominated.Pods, w.pod("nominated", ""))
		}
		all = append(all, c, nominated)
	}
	return all
}

// strangers are a copy of a node with one pod more, and a node that no snapshot has.
func (w *world) strangers() []fwk.NodeInfo {
	copied, foreign := w.any().Snapshot().(*framework.NodeInfo), framework.NewNodeInfo()
	copied.AddPod(w.pod("stranger-1", copied.Node().Name))
	foreign.SetNode(w.node("foreign"))
	foreign.Node().Labels[corev1.LabelTopologyZone] = w.one("zone-foreign-", 2)
	foreign.AddPod(w.pod("stranger-2", "foreign"))
	return []fwk.NodeInfo{copied, foreign}[:w.IntN(3)]
}

// TestIndex_ForgetsWhatIsGone fails if pods or nodes are counted after they are gone.
func TestIndex_ForgetsWhatIsGone(t *testing.T) {
	ix := newIndex()
	info := func(name string, pods ...*corev1.Pod) fwk.NodeInfo {
		i := framework.NewNodeInfo(pods...)
		i.SetNode(st.MakeNode().Name(name).Obj())
		return i
	}
	pod := func(namespace, name, app string) *corev1.Pod {
		return st.MakePod().Namespace(namespace).Name(name).UID(name).Label("app", app).Obj()
	}
	left := func(classes, labels, nodes int) {
		t.Helper()
		check.Equal(t, "classes, labels and nodes", [3]int{classes, labels, nodes}, [3]int{len(ix.classes), len(ix.labeled), len(ix.nodes)})
	}
	n1 := info("n1", pod("a", "1", "web"), pod("b", "2", "web"), pod("a", "3", "db"))
	ix.sync([]fwk.NodeInfo{n1, info("n2", pod("a", "4", "web"))}, false)
	left(3, 5, 2) // three of app in two namespaces, and the two namespaces
	ix.sync([]fwk.NodeInfo{n1}, false)
	left(3, 5, 1)
	ix.mark()
	found := ix.matches("a", labels.SelectorFromSet(labels.Set{"app": "web"}), 0, 1)
	if len(found) != 1 || found[0].object != n1.Node() || found[0].matching[0] != 1 {
		t.Errorf("%d nodes have pods that match, want n1 with one", len(found))
	}
	ix.sync([]fwk.NodeInfo{info("n1"), info("n3")}, false)
	left(0, 0, 2)
}

// A taint that the pod does not tolerate takes the only node of a zone away, and so one of two domains.
func TestIndex_TaintsChangeDomains(t *testing.T) {
	ix, pl, nodes := newIndex(), &IncrementalPodTopologySpread{}, []fwk.NodeInfo{}
	for _, zone := range []string{"a", "b"} {
		node := framework.NewNodeInfo()
		node.SetNode(st.MakeNode().Name(zone).Label(corev1.LabelTopologyZone, zone).Obj())
		nodes = append(nodes, node)
	}
	c := []constraint{{key: corev1.LabelTopologyZone, honorsTaints: true}}
	domains := func() int {
		ix.sync(nodes, false)
		e := pl.eligibility(klog.Background(), &corev1.Pod{}, c, true)
		return ix.domainsOf(&e, &c[0])
	}
	check.Equal(t, "domains", 2, domains())
	tainted := nodes[1].Node().DeepCopy()
	tainted.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
	nodes[1].(*framework.NodeInfo).SetNode(tainted)
	check.Equal(t, "domains with a taint", 1, domains())
}

// TestIndex_Bounds fails if what pods of tenants name is kept without bound.
func TestIndex_Bounds(t *testing.T) {
	ix, pl := newIndex(), &IncrementalPodTopologySpread{}
	node := framework.NewNodeInfo()
	node.SetNode(st.MakeNode().Name("n").Obj())
	ix.sync([]fwk.NodeInfo{node}, false)
	for i := range 3 * maxDomains {
		c := []constraint{{key: fmt.Sprint("key-", i), honorsAffinity: true}}
		pod := st.MakePod().NodeSelector(map[string]string{"a": strings.Repeat("x", i)}).Obj()
		e := pl.eligibility(klog.Background(), pod, c, true)
		ix.domainsOf(&e, &c[0])
		ix.topologyOf(c[0].key)
		for key := range ix.domains {
			if len(key.pod) > maxText {
				t.Fatalf("%d bytes of a pod are kept", len(key.pod))
			}
		}
		if len(ix.domains) > maxDomains || len(ix.topologies) > maxTopologies {
			t.Fatalf("%d numbers of domains and %d topologies are kept", len(ix.domains), len(ix.topologies))
		}
	}
}

// A pod with 9 constraints, and one that selects more classes than there are nodes, are left to the stock plugin. Both plugins give
// the same answers by other tests; here the state tells which of them answered.
func TestLeavesDearDecisionsToTheStockPlugin(t *testing.T) {
	w := newWorld(0)
	w.size = 2
	ours := check.Value(New(t.Context(), &schedulerconfig.PodTopologySpreadArgs{DefaultingType: schedulerconfig.SystemDefaulting}, w))(t)
	for len(w.nodes) < w.size {
		w.add()
	}
	all := w.nodes[0].(*framework.NodeInfo)
	for i := range 2 * cheapClasses {
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
		if _, status := ours.PreFilter(t.Context(), state, tt.pod, w.nodes); !status.IsSuccess() {
			t.Fatal(status)
		}
		if got := filterStateOf(state) != nil; got != tt.want {
			t.Errorf("%d constraints, the first by %v: counted by the index: %v, want %v", len(tt.pod.Spec.TopologySpreadConstraints),
				tt.pod.Spec.TopologySpreadConstraints[0].LabelSelector, got, tt.want)
		}
	}
}

// TestIndex_Candidates fails if each decision looks at the pods of all workloads of the namespace.
func TestIndex_Candidates(t *testing.T) {
	ix := newIndex()
	pods := make([]*corev1.Pod, 6)
	for i := range pods {
		pods[i] = st.MakePod().Namespace("a").Name(fmt.Sprint(i)).UID(fmt.Sprint(i)).
			Label("tier", "front").Label("app", fmt.Sprint("app-", i/2)).Label("track", fmt.Sprint(i)).Obj()
	}
	node := framework.NewNodeInfo(pods...)
	node.SetNode(st.MakeNode().Name("n").Obj())
	ix.sync([]fwk.NodeInfo{node}, false)
	for selector, want := range map[string]int{
		"": 6, "tier=front": 6, "tier=front,app=app-1": 2, "app in (app-1)": 2, "app in (app-1,app-2)": 6, "app!=app-1,track=3": 1,
		"app=app-9": 0, "app!=app-1": 6,
	} {
		if got := len(ix.candidates("a", check.Value(labels.Parse(selector))(t))); got != want {
			t.Errorf("%q: looks at %d of 6 classes, want %d", selector, got, want)
		}
	}
}

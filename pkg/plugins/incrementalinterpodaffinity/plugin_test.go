package incrementalinterpodaffinity

import (
	"fmt"
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	inTree "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/internal/podindex"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/minortest"
	"github.com/plimsoll-scheduler/plimsoll/test/plugintest"
)

func TestMain(m *testing.M) {
	metrics.Register() // the stock plugin counts its goroutines
	os.Exit(m.Run())
}

// TestAnswersAsTheStockPlugin compares with the stock plugin while pods, labels and nodes change at random.
func TestAnswersAsTheStockPlugin(t *testing.T) {
	plugintest.CompareAnswers(t, func(seed uint64) (_ *plugintest.World, stock, ours plugintest.Spreader) {
		w := newWorld(t, seed)
		stock, ours = w.plugins(t, &schedulerconfig.InterPodAffinityArgs{
			HardPodAffinityWeight: int32(seed % 3 * 7), IgnorePreferredTermsOfExistingPods: seed%4 == 3,
		})
		return w.World, stock, ours
	})
}

// TestAnswersAsTheStockPlugin_PodGroups changes pods without a new generation, as the cycles of pod groups do.
func TestAnswersAsTheStockPlugin_PodGroups(t *testing.T) {
	w := newWorld(t, 1)
	stock, ours := w.plugins(t, &schedulerconfig.InterPodAffinityArgs{HardPodAffinityWeight: 1})
	for range 50 {
		w.Change()
	}
	same := func(state func() fwk.CycleState) {
		t.Helper()
		for range 10 {
			q := plugintest.Question{Pod: w.pod("incoming", ""), Nodes: check.Value(w.List())(t)}
			check.Equal(t, "answers", q.Ask(t.Context(), stock, state()).Said, q.Ask(t.Context(), ours, state()).Said)
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
		w.Placement = w.Nodes[:1]
		same(group)
		w.Placement = nil
		for _, pod := range pods {
			check.OK(t, node.RemovePod(klog.Background(), pod))
			node.Generation = generation
		}
		same(single)
	}
}

// A pod with 9 terms, and one whose term matches more classes than there are nodes, are left to the stock plugin: the state tells
// which of both plugins answered.
func TestLeavesDearDecisionsToTheStockPlugin(t *testing.T) {
	w := newWorld(t, 0)
	_, ours := w.plugins(t, &schedulerconfig.InterPodAffinityArgs{})
	w.Add()
	for i := range 100 { // 32 classes are always cheap
		w.Any().AddPod(st.MakePod().Namespace("ns").Name(fmt.Sprint(i)).UID(fmt.Sprint(i)).Label("app", "db").Label("pod", fmt.Sprint(i)).
			Node(w.Any().Node().Name).Obj())
	}
	with := func(terms int, selector string) *corev1.Pod {
		pod := st.MakePod().Namespace("ns").Name("p").UID("p").Obj()
		term := corev1.PodAffinityTerm{LabelSelector: check.Value(metav1.ParseToLabelSelector(selector))(t), TopologyKey: "zone"}
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: slices.Repeat([]corev1.PodAffinityTerm{term}, terms),
		}}
		return pod
	}
	state := framework.NewCycleState() // no count is left in it for a later call
	for _, tt := range []struct {
		pod  *corev1.Pod
		want bool
	}{{with(1, "pod=1"), true}, {with(maxTerms, "pod=1"), true}, {with(maxTerms+1, "pod=1"), false}, {with(1, "app=db"), false}} {
		if _, status := ours.PreFilter(t.Context(), state, tt.pod, w.Nodes); !status.IsSuccess() {
			t.Fatal(status)
		}
		check.Equal(t, fmt.Sprint("counted by the index: ", tt.pod.Spec.Affinity.PodAntiAffinity), tt.want, podindex.StateOf[*filterState](state, filterKey) != nil)
	}
	if _, ok := utilfeature.DefaultMutableFeatureGate.GetAll()[fastPath]; ok {
		featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, fastPath, true)
		_, ours = w.plugins(t, &schedulerconfig.InterPodAffinityArgs{})
		counted := ours.(*IncrementalInterPodAffinity).counts(framework.NewCycleState(), with(1, "pod=1"), nil, w.Nodes)
		check.Equal(t, "counted by the index with the gate", false, counted)
	}
}

// world is a cluster whose pods have terms.
type world struct {
	*plugintest.World
	t *testing.T
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{World: plugintest.NewWorld(seed), t: t}
	w.MakeNode, w.MakePod = w.node, w.pod
	for i := range 2 { // ns-2 is not known
		w.HasNamespace(t, fmt.Sprint("ns-", i), map[string]string{"team": fmt.Sprint("team-", i)})
	}
	return w
}

// plugins returns the stock plugin and ours.
func (w *world) plugins(t *testing.T, args *schedulerconfig.InterPodAffinityArgs) (stock, ours plugintest.Spreader) {
	t.Helper()
	stock = check.Value(inTree.NewInTreeRegistry()[names.InterPodAffinity](t.Context(), args, w))(t).(plugintest.Spreader)
	return stock, check.Value(New(t.Context(), args, w, podindex.New()))(t)
}

func (w *world) node(name string) *corev1.Node {
	node := st.MakeNode().Name(name).Label("disk", w.One("kind-", 2))
	if w.IntN(20) > 0 {
		node.Label(corev1.LabelHostname, name)
	}
	if w.IntN(8) > 0 {
		node.Label(corev1.LabelTopologyZone, []string{"", "zone-1", "zone-2"}[w.IntN(3)])
	}
	if w.IntN(20) == 0 {
		node.Obj().Labels = nil
	}
	return node.Obj()
}

func (w *world) pod(name, node string) *corev1.Pod {
	pod := st.MakePod().Namespace(w.One("ns-", 3)).Name(name).UID(name).Node(node)
	if w.IntN(6) > 0 {
		pod.Label("app", w.One("app-", 8))
	}
	if w.IntN(2) == 0 {
		pod.Label("version", w.One("v", 2))
	}
	if w.IntN(8) == 0 {
		pod.Terminating()
	}
	made := pod.Obj()
	if w.IntN(3) > 0 && node != "" { // most pods that run have no terms
		return made
	}
	affinity := corev1.Affinity{}
	if w.IntN(2) == 0 {
		affinity.PodAffinity = &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution:  w.terms(made, 3),
			PreferredDuringSchedulingIgnoredDuringExecution: w.weighted(made),
		}
	}
	if w.IntN(2) == 0 {
		affinity.PodAntiAffinity = &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution:  w.terms(made, 2),
			PreferredDuringSchedulingIgnoredDuringExecution: w.weighted(made),
		}
	}
	made.Spec.Affinity = &affinity
	return made
}

func (w *world) weighted(pod *corev1.Pod) (all []corev1.WeightedPodAffinityTerm) {
	for _, term := range w.terms(pod, 3) {
		all = append(all, corev1.WeightedPodAffinityTerm{Weight: int32(1 + w.IntN(100)), PodAffinityTerm: term})
	}
	return all
}

// terms returns fewer than n terms.
func (w *world) terms(pod *corev1.Pod, n int) (all []corev1.PodAffinityTerm) {
	for range w.IntN(n) {
		selector := []*metav1.LabelSelector{
			{MatchLabels: map[string]string{"app": pod.Labels["app"]}}, {MatchLabels: map[string]string{"app": "app-1"}},
			{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}}}, {}, nil,
			{MatchLabels: map[string]string{"app": "app-1", "version": "v1"}},
			{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"app-0"}},
			}},
		}[max(w.IntN(14)-7, 0)]
		term := corev1.PodAffinityTerm{
			LabelSelector: selector, TopologyKey: []string{corev1.LabelTopologyZone, corev1.LabelHostname, "disk"}[w.IntN(3)],
		}
		if w.IntN(4) == 0 {
			term.Namespaces = []string{w.One("ns-", 3), w.One("ns-", 3)}
		}
		if w.IntN(6) == 0 {
			term.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": w.One("team-", 3)}}
			if w.IntN(2) == 0 { // matches namespaces without labels too
				term.NamespaceSelector = check.Value(metav1.ParseToLabelSelector("team notin (team-0)"))(w.t)
			}
		} else if w.IntN(8) == 0 {
			term.NamespaceSelector = &metav1.LabelSelector{}
		}
		all = append(all, term)
	}
	return all
}

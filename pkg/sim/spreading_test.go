package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	inTree "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

const stockProfile = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

// spreader is what PodTopologySpread is to a scheduling cycle.
type spreader interface {
	minor.PreFilterPlugin
	minor.FilterPlugin
	minor.PreScorePlugin
	minor.ScorePlugin
}

// answers returns all that a plugin says about a pod: each status, and the scores before and after NormalizeScore.
func answers(ctx context.Context, pl spreader, pod *corev1.Pod, nodes []fwk.NodeInfo) (said []string, feasible int) {
	say := func(what any, status *fwk.Status) {
		said = append(said, fmt.Sprint(what, " ", status.Code(), " ", status.Message()))
	}
	state := framework.NewCycleState()
	_, status := pl.PreFilter(ctx, state, pod, nodes)
	say("PreFilter", status)
	passed := nodes
	if !status.IsSkip() {
		passed = nil
		for _, node := range nodes {
			status := pl.Filter(ctx, state, pod, node)
			say(node.Node().Name, status)
			if status.IsSuccess() {
				passed = append(passed, node)
			}
		}
	}
	if len(passed) == 0 {
		return said, 0
	}
	status = pl.PreScore(ctx, state, pod, passed)
	say("PreScore", status)
	if status.IsSkip() {
		return said, len(passed)
	}
	scores := make(minor.NodeScoreList, len(passed))
	for i, node := range passed {
		score, status := pl.Score(ctx, state, pod, node)
		say(score, status)
		scores[i] = minor.NodeScore{Name: node.Node().Name, Score: score}
	}
	say("NormalizeScore", pl.ScoreExtensions().NormalizeScore(ctx, state, pod, scores))
	return append(said, fmt.Sprint(scores)), len(passed)
}

// TestSpreading_AnswersAsTheStockPlugin compares with the stock plugin while pods, labels, namespaces and nodes change at random.
func TestSpreading_AnswersAsTheStockPlugin(t *testing.T) {
	object, _, err := scheme.Codecs.UniversalDecoder().Decode([]byte(stockProfile), nil, nil)
	check.OK(t, err)
	configuration := object.(*schedulerconfig.KubeSchedulerConfiguration)
	var filtered, scored, refused int
	for seed := range uint64(20) {
		s := check.Value(New(t.Context(), Options{Configuration: configuration}))(t)
		profile := s.profiles[corev1.DefaultSchedulerName]
		args := configuration.Profiles[0].PluginConfig[spreadingIndex(t, configuration)].Args
		if seed%4 == 3 {
			args = &schedulerconfig.PodTopologySpreadArgs{
				DefaultingType: schedulerconfig.ListDefaulting,
				DefaultConstraints: []corev1.TopologySpreadConstraint{
					{MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway},
					{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule},
				},
			}
		}
		stock := check.Value(inTree.NewInTreeRegistry()[names.PodTopologySpread](t.Context(), args, profile.Framework))(t)
		ours := check.Value(newSpreading(t.Context(), args, profile.Framework))(t)
		w := &randomCluster{Rand: rand.New(rand.NewPCG(seed, 1)), s: s}
		for step := range 60 {
			w.change(t)
			check.OK(t, s.updateSnapshot(t.Context()))
			nodes := check.Value(s.snapshot.NodeInfos().List())(t)
			pod := w.pod("incoming", "")
			want, feasible := answers(t.Context(), stock.(*podtopologyspread.PodTopologySpread), pod, nodes)
			got, _ := answers(t.Context(), ours.(*spreading), pod, nodes)
			check.Equal(t, fmt.Sprint("seed ", seed, ", step ", step), want, got)
			for _, count := range []struct {
				n    *int
				when bool
			}{{&filtered, len(want) > 0 && want[0] == "PreFilter Success "}, {&scored, len(want) > 3}, {&refused, feasible < len(nodes)}} {
				if count.when {
					*count.n++
				}
			}
			if t.Failed() {
				return
			}
		}
	}
	t.Logf("%d filtered, %d scored, %d with refused nodes", filtered, scored, refused)
	if filtered < 100 || scored < 100 || refused < 100 {
		t.Errorf("%d filtered, %d scored, %d with refused nodes: too few to say that both are alike", filtered, scored, refused)
	}
}

func spreadingIndex(t *testing.T, configuration *schedulerconfig.KubeSchedulerConfiguration) int {
	t.Helper()
	for i, c := range configuration.Profiles[0].PluginConfig {
		if c.Name == names.PodTopologySpread {
			return i
		}
	}
	t.Fatal("no arguments of PodTopologySpread")
	return 0
}

// randomCluster changes a simulated cluster at random.
type randomCluster struct {
	*rand.Rand
	s     *Scheduler
	nodes []*corev1.Node
	pods  []*corev1.Pod
	made  int
}

func (w *randomCluster) one(prefix string, n int) string { return fmt.Sprint(prefix, w.IntN(n)) }

func (w *randomCluster) node(name string) *corev1.Node {
	node := st.MakeNode().Name(name).Label(corev1.LabelHostname, name)
	if w.IntN(5) > 0 {
		node.Label(corev1.LabelTopologyZone, w.one("zone-", 3))
	}
	if w.IntN(4) == 0 {
		node.Taints([]corev1.Taint{{Key: "dedicated", Value: "x", Effect: corev1.TaintEffectNoSchedule}})
	}
	return node.Label("disk", w.one("kind-", 2)).Obj()
}

func (w *randomCluster) pod(name, node string) *corev1.Pod {
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
	if w.IntN(4) == 0 {
		pod.NodeSelector(map[string]string{"disk": w.one("kind-", 2)})
	}
	if w.IntN(8) == 0 {
		pod.Terminating()
	}
	selector := []*metav1.LabelSelector{
		{MatchLabels: map[string]string{"app": pod.Obj().Labels["app"]}}, {MatchLabels: map[string]string{"app": "app-1"}},
		{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}}}, {}, nil,
		{MatchLabels: map[string]string{"app": "app-1", "version": "v1"}},
		{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"app-0"}},
		}},
	}[max(w.IntN(10)-3, 0)]
	for range w.IntN(3) {
		key, when := corev1.LabelTopologyZone, corev1.DoNotSchedule
		if w.IntN(2) == 0 {
			key = corev1.LabelHostname
		}
		if w.IntN(2) == 0 {
			when = corev1.ScheduleAnyway
		}
		c := corev1.TopologySpreadConstraint{
			MaxSkew: int32(1 + w.IntN(2)), TopologyKey: key, WhenUnsatisfiable: when, LabelSelector: selector,
		}
		if w.IntN(2) == 0 {
			honor := corev1.NodeInclusionPolicyHonor
			c.NodeTaintsPolicy = &honor
		}
		if w.IntN(4) == 0 {
			ignore := corev1.NodeInclusionPolicyIgnore
			c.NodeAffinityPolicy = &ignore
		}
		if when == corev1.DoNotSchedule && w.IntN(4) == 0 {
			c.MinDomains = new(int32(2))
		}
		if w.IntN(3) == 0 {
			c.MatchLabelKeys = []string{"version"}
		}
		pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, c)
	}
	return pod.Obj()
}

// change makes several changes. The first ones create services and ReplicaSets, whose pods are spread by default.
func (w *randomCluster) change(t *testing.T) {
	t.Helper()
	if w.made == 0 {
		for i := range 2 {
			service := &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("ns-", i), Name: "web"},
				Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "app-0"}},
			}
			set := &appsv1.ReplicaSet{
				ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("ns-", i), Name: "web"},
				Spec:       appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "app-1"}}},
			}
			check.OK(t, w.s.Add(service, set))
		}
	}
	for range 1 + w.IntN(12) {
		w.made++
		switch roll := w.IntN(20); {
		case roll < 3 || len(w.nodes) == 0:
			w.nodes = append(w.nodes, w.node(fmt.Sprint("node-", w.made)))
			check.OK(t, w.s.Add(w.nodes[len(w.nodes)-1]))
		case roll < 4 && len(w.nodes) > 2:
			i := w.IntN(len(w.nodes))
			check.OK(t, w.s.Remove(w.nodes[i]))
			w.nodes = append(w.nodes[:i], w.nodes[i+1:]...)
		case roll < 6:
			i := w.IntN(len(w.nodes))
			w.nodes[i] = w.node(w.nodes[i].Name)
			check.OK(t, w.s.Update(w.nodes[i]))
		case roll < 8 && len(w.pods) > 0:
			i := w.IntN(len(w.pods))
			check.OK(t, w.s.Remove(w.pods[i]))
			w.pods = append(w.pods[:i], w.pods[i+1:]...)
		case roll < 11 && len(w.pods) > 0:
			i := w.IntN(len(w.pods))
			changed := w.pods[i].DeepCopy()
			changed.Labels = map[string]string{"app": w.one("app-", 3)}
			w.pods[i] = changed
			check.OK(t, w.s.Update(changed))
		default:
			w.pods = append(w.pods, w.pod(fmt.Sprint("pod-", w.made), w.nodes[w.IntN(len(w.nodes))].Name))
			check.OK(t, w.s.Add(w.pods[len(w.pods)-1]))
		}
	}
}

// TestSpreading_ForgetsWhatIsGone fails if brief pods or nodes outlive what they stand for.
func TestSpreading_ForgetsWhatIsGone(t *testing.T) {
	brief := newBriefNodes()
	info := func(name string, pods ...*corev1.Pod) fwk.NodeInfo {
		i := framework.NewNodeInfo(pods...)
		i.SetNode(st.MakeNode().Name(name).Obj())
		return i
	}
	web := st.MakePod().Namespace("a").Name("1").UID("1").Label("app", "web").Obj()
	other := st.MakePod().Namespace("b").Name("2").UID("2").Obj()
	alike := st.MakePod().Namespace("a").Name("3").UID("3").Label("app", "web").Obj()
	unlike := st.MakePod().Namespace("a").Name("4").UID("4").Label("app", "db").Obj()
	all := brief.of([]fwk.NodeInfo{info("n1", web, other, unlike), info("n2", alike), info("n3")})
	showing := brief.show("a", []labels.Selector{labels.SelectorFromSet(labels.Set{"app": "web"})})
	if len(showing) != 2 || len(all[0].GetPods()) != 1 || len(all[1].GetPods()) != 1 || all[0].GetPods()[0] != all[1].GetPods()[0] {
		t.Errorf("pods of one namespace with the same labels are not one brief pod: %v and %v", all[0].GetPods(), all[1].GetPods())
	}
	left := func(pods, kinds, nodes int) {
		t.Helper()
		if len(brief.pods) != pods || len(brief.labeled) != kinds || len(brief.nodes) != nodes {
			t.Errorf("%d brief pods with %d labels on %d nodes, want %d with %d on %d",
				len(brief.pods), len(brief.labeled), len(brief.nodes), pods, kinds, nodes)
		}
	}
	left(3, 4, 3)                             // app=web, app=db, and the namespaces a and b
	brief.of([]fwk.NodeInfo{info("n1", web)}) // of three nodes one is left: the others are forgotten
	left(1, 2, 1)
	brief.of([]fwk.NodeInfo{info("n1")})
	left(0, 0, 1)
}

// TestSpreading_Candidates fails if each decision looks at the pods of all workloads of the namespace.
func TestSpreading_Candidates(t *testing.T) {
	brief := newBriefNodes()
	pods := make([]*corev1.Pod, 6)
	for i := range pods {
		pods[i] = st.MakePod().Namespace("a").Name(fmt.Sprint(i)).UID(fmt.Sprint(i)).
			Label("tier", "front").Label("app", fmt.Sprint("app-", i/2)).Label("track", fmt.Sprint(i)).Obj()
	}
	node := framework.NewNodeInfo(pods...)
	node.SetNode(st.MakeNode().Name("n").Obj())
	brief.of([]fwk.NodeInfo{node})
	for selector, want := range map[string]int{
		"": 6, "tier=front": 6, "tier=front,app=app-1": 2, "app in (app-1)": 2, "app in (app-1,app-2)": 6, "app!=app-1,track=3": 1,
		"app=app-9": 0, "app!=app-1": 6,
	} {
		if got := len(brief.candidates("a", check.Value(labels.Parse(selector))(t))); got != want {
			t.Errorf("%q: looks at %d of 6 pods, want %d", selector, got, want)
		}
	}
}

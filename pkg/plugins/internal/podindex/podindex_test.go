package podindex

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// TestIndex_ForgetsWhatIsGone fails if pods or nodes are counted after they are gone.
func TestIndex_ForgetsWhatIsGone(t *testing.T) {
	ix := New()
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
	ix.Sync(framework.NewCycleState(), []fwk.NodeInfo{n1, info("n2", pod("a", "4", "web"))})
	left(3, 5, 2) // three of app in two namespaces, and the two namespaces
	ix.Sync(framework.NewCycleState(), []fwk.NodeInfo{n1})
	left(3, 5, 1)
	ix.Mark()
	found := ix.Count("a", labels.SelectorFromSet(labels.Set{"app": "web"}), 0, 1)
	if len(found) != 1 || found[0].Object != n1.Node() || found[0].Matching[0] != 1 {
		t.Errorf("%d nodes have pods that match, want n1 with one", len(found))
	}
	ix.Sync(framework.NewCycleState(), nil)
	check.Equal(t, "nodes found before", []*Node{nil}, ix.found[:1])
	ix.Sync(framework.NewCycleState(), []fwk.NodeInfo{info("n1"), info("n3")})
	left(0, 0, 2)
}

// TestIndex_Candidates fails if each decision looks at the pods of all workloads of the namespace.
func TestIndex_Candidates(t *testing.T) {
	ix := New()
	pods := make([]*corev1.Pod, 6)
	for i := range pods {
		pods[i] = st.MakePod().Namespace("a").Name(fmt.Sprint(i)).UID(fmt.Sprint(i)).
			Label("tier", "front").Label("app", fmt.Sprint("app-", i/2)).Label("track", fmt.Sprint(i)).Obj()
	}
	node := framework.NewNodeInfo(pods...)
	node.SetNode(st.MakeNode().Name("n").Obj())
	ix.Sync(framework.NewCycleState(), []fwk.NodeInfo{node})
	for selector, want := range map[string]int{
		"": 6, "tier=front": 6, "tier=front,app=app-1": 2, "app in (app-1)": 2, "app in (app-1,app-2)": 6, "app!=app-1,track=3": 1,
		"app=app-9": 0, "app!=app-1": 6,
	} {
		check.Equal(t, fmt.Sprintf("%q: looks at of 6 classes", selector), want,
			len(ix.Candidates("a", check.Value(labels.Parse(selector))(t))))
	}
}

// TestIndex_Bounds fails if the values of all labels that pods of tenants name are kept.
func TestIndex_Bounds(t *testing.T) {
	ix, node := New(), framework.NewNodeInfo()
	node.SetNode(st.MakeNode().Name("n").Obj())
	ix.Sync(framework.NewCycleState(), []fwk.NodeInfo{node})
	for i := range 3 * maxTopologies {
		ix.Topology(fmt.Sprint("key-", i))
		if len(ix.topologies) > maxTopologies {
			t.Fatalf("%d topologies are kept", len(ix.topologies))
		}
	}
}

// TestIndex_Terms fails if the classes with terms are all looked at for each pod, or if one that matches is not.
func TestIndex_Terms(t *testing.T) {
	ix, node := New(), framework.NewNodeInfo()
	node.SetNode(st.MakeNode().Name("n").Obj())
	with := func(name string, term corev1.PodAffinityTerm) {
		pod := st.MakePod().Namespace("a").Name(name).UID(name).Obj()
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term},
		}}
		node.AddPod(pod)
	}
	many := make([]string, maxLists+1)
	for i := range many {
		many[i] = fmt.Sprint("many-", i)
	}
	selector := func(text string) *metav1.LabelSelector { return check.Value(metav1.ParseToLabelSelector(text))(t) }
	with("1", corev1.PodAffinityTerm{LabelSelector: selector("app=web,tier=front")})
	with("2", corev1.PodAffinityTerm{LabelSelector: selector("app=db,tier=front")})
	with("3", corev1.PodAffinityTerm{LabelSelector: selector("app=web"), Namespaces: []string{"b", "c"}})
	with("4", corev1.PodAffinityTerm{LabelSelector: selector("app=web"), NamespaceSelector: selector("team=x")})
	with("5", corev1.PodAffinityTerm{LabelSelector: selector("app notin (web)")})
	with("6", corev1.PodAffinityTerm{LabelSelector: selector("app=web"), Namespaces: many})
	with("7", corev1.PodAffinityTerm{}) // matches nothing
	ix.Sync(framework.NewCycleState(), []fwk.NodeInfo{node})
	for _, tt := range []struct {
		namespace, app string
		want           int
	}{
		{"a", "web", 4}, // 1, 4, 5, 6
		{"b", "web", 3}, // 3, 4, 6
		{"a", "db", 3},  // 2, 5, 6
		{"a", "x", 2},   // 5, 6
		{"b", "x", 1},   // 6, which has too many lists, is looked at for each pod
	} {
		got := 0
		pod := st.MakePod().Namespace(tt.namespace).Label("app", tt.app).Obj()
		for range ix.WithTerms(pod) {
			got++
		}
		check.Equal(t, fmt.Sprint(tt, ": classes with terms"), tt.want, got)
		check.Equal(t, fmt.Sprint(tt, ": counted"), tt.want, ix.CountWithTerms(pod))
	}
	node.Pods = nil
	node.Generation++
	ix.Sync(framework.NewCycleState(), []fwk.NodeInfo{node})
	check.Equal(t, "lists of terms that are left", 0, len(ix.termed))
}

// TestIndex_SyncOfACycle looks at nodes once in a cycle, but at another list, or in another cycle, again.
func TestIndex_SyncOfACycle(t *testing.T) {
	ix, state, one := New(), framework.NewCycleState(), framework.NewNodeInfo()
	one.SetNode(st.MakeNode().Name("one").Obj())
	nodes, other := []fwk.NodeInfo{one}, []fwk.NodeInfo{one}
	for _, tt := range []struct {
		state fwk.CycleState
		nodes []fwk.NodeInfo
		want  int
	}{{state, nodes, 1}, {state, nodes, 1}, {state, other, 3}, {state, other, 3}, {framework.NewCycleState(), other, 5}} {
		one.AddPod(st.MakePod().Namespace("a").Name(fmt.Sprint(len(one.Pods))).UID(fmt.Sprint(len(one.Pods))).Obj())
		ix.Sync(tt.state, tt.nodes)
		check.Equal(t, "counted pods", tt.want, len(ix.Rows[0].pods))
	}
}

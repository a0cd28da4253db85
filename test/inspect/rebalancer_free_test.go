package inspect

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/plan"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

const freeGoal = "goals: [Cool, Free]\nfreeMinNodes: 1\nfreeMaxNodes: 1\nfreeRest: 1m\n"

// idle has a pod of web on each node. w-2 and w-3 are at 25 %, by pods that stay, so only w-1 can be emptied. Once replicated is
// called, moved pods get replacements.
func idle(t *testing.T) (replicated func()) {
	t.Helper()
	shared.clear(t)
	ctx := t.Context()
	runMoving(t, "moving", movingConfiguration)
	web := func(name, node string) cluster.Pod {
		return cluster.Pod{
			Name: name, Node: node, Scheduler: "moving", ReplicaSet: "web", Labels: map[string]string{"app": "web"},
			Usage: cluster.Usage{CPU: "100m"},
		}
	}
	for _, name := range []string{"w-1", "w-2", "w-3"} {
		must(t, shared.CreateNodes(ctx, cluster.Node{Name: name, CPU: "8", Memory: "32Gi"}))
		if name != "w-1" {
			must(t, shared.SetLoad(ctx, name, cluster.Load{Usage: cluster.Usage{CPU: "2"}}))
		}
		must(t, shared.CreatePods(ctx, web("web-"+name, name)))
	}
	return func() { replicate(t, 3, web("", "")) }
}

// cordon returns whether a node is cordoned, and the annotation.
func cordon(t *testing.T, name string) (bool, string) {
	t.Helper()
	node, err := shared.Client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	return node.Spec.Unschedulable, node.Annotations[plan.CordonAnnotation]
}

// TestRebalance_EvictFree asks first, and then empties the node that the rebalancer would empty.
func TestRebalance_EvictFree(t *testing.T) {
	idle(t)()
	args := []string{
		"rebalance", "--evict", "--config", shared.writeConfiguration(t, movingConfiguration), "--rebalancer-config", limits(t, freeGoal),
	}
	const plan = "Node w-1 could be emptied, with 1 pod to place"
	r := planning(t, "no\n", args, plan)
	if is, _ := cordon(t, "w-1"); r.exitCode != 0 || !strings.Contains(r.stderr, "Cordon w-1, and evict these pods? [y/N]") || is {
		t.Errorf("after the answer no, w-1 is cordoned: %t; %+v", is, r)
	}
	r = planning(t, "y\n", args, plan).wants(t, 0)
	for _, want := range []string{
		"Node w-1 (NodeCordoned): ", "Evicted pod default/web-w-1 from w-1; ", ", in place of web-w-1\n", "Node w-1 (NodeEmptied): ",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("stdout is %q, want %q", r.stdout, want)
		}
	}
	is, at := cordon(t, "w-1")
	if !is || at == "" {
		t.Errorf("w-1 is cordoned: %t, with the annotation %q", is, at)
	}
	r = shared.plimsollReading(t, "", "rebalance", "--config", shared.writeConfiguration(t, movingConfiguration)).wants(t, 0)
	if want := "An earlier command cordoned node w-1 at " + at + " to empty it. 0 pods left."; !strings.Contains(r.stdout, want) {
		t.Errorf("stdout is %q, want %q", r.stdout, want)
	}
}

// TestRebalancer_Free empties w-1, and is killed meanwhile. Then a pod waits that fits w-1 alone.
func TestRebalancer_Free(t *testing.T) {
	replicated := idle(t)
	ctx, nodes := t.Context(), shared.Client.CoreV1().Nodes()
	createState(t, metav1.NamespaceDefault)
	goals := limits(t, freeGoal)
	r := runRebalancer(t, "rebalancer", goals, movingConfiguration,
		rebalancerAccount(t, rebalancerRules(t, api.Evict, api.Goals()...)...))
	r.stays("a pause", func() bool { return r.metric(`stopped{reason="Paused"}`) == 1 })
	if is, _ := cordon(t, "w-1"); is {
		t.Error("w-1 is cordoned during a pause")
	}

	// SIGKILL once the node is cordoned. The first eviction follows 5 s later. Even if the kill is later, the node is not empty before
	// the pod has a replacement.
	pause(t, false)
	r.until("w-1 is cordoned", func() bool { is, at := cordon(t, "w-1"); return is && at != "" })
	must(t, r.Kill())
	if s := stateOf(t); len(s.Cordons) != 1 || s.Cordons[0].Node != "w-1" || !s.Cordons[0].Emptied.IsZero() {
		t.Errorf("the state has the cordons %+v, want that of w-1", s.Cordons)
	}
	replicated()
	must(t, r.Start(ctx))
	r.until("w-1 is empty", func() bool { return r.metric("empty_nodes") == 1 && r.metric("emptying_nodes") == 0 })
	records := endedMoves(t)
	if len(records) != 1 || records[0].Pod != "web-w-1" || records[0].Outcome.Failed() || !records[0].Frees {
		t.Errorf("the moves are %+v, want that of web-w-1", records)
	}
	pods, err := shared.Client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
	must(t, err)
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.Spec.NodeName == "w-1" || len(pods.Items) != 3 {
			t.Errorf("pod %s of %d is on %s, want three on w-2 and w-3", pod.Name, len(pods.Items), pod.Spec.NodeName)
		}
	}
	if is, at := cordon(t, "w-1"); !is || at == "" {
		t.Errorf("w-1 is cordoned: %t, with the annotation %q", is, at)
	}

	waits := cluster.Pod{Name: "waits", Scheduler: "moving", NodeSelector: map[string]string{corev1.LabelHostname: "w-1"}}
	must(t, shared.CreatePods(ctx, waits))
	r.until("w-1 is uncordoned for the pod that waits", func() bool {
		pod, err := shared.Client.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, "waits", metav1.GetOptions{})
		must(t, err)
		return pod.Spec.NodeName == "w-1"
	})
	r.until("it is forgotten", func() bool { return r.metric(`freed_nodes_total{result="NodeUncordoned"}`) == 1 })
	if is, at := cordon(t, "w-1"); is || at != "" || len(stateOf(t).Cordons) > 0 {
		t.Errorf("w-1 is cordoned: %t, with the annotation %q", is, at)
	}
	checkRequests(t, "create events", "create leases", "create pods/eviction", "get configmaps", "get leases", "get pods", "patch nodes",
		"update configmaps", "update leases")

	must(t, r.Stop())
	_, err = nodes.Patch(ctx, "w-2", types.MergePatchType,
		[]byte(strings.Replace(`{"spec": {"unschedulable": true}, "metadata": {"annotations": {"KEY": "x"}}}`, "KEY", plan.CordonAnnotation, 1)),
		metav1.PatchOptions{})
	must(t, err)
	runDocumented(t, "kubectl get nodes -o jsonpath=")
	if is, at := cordon(t, "w-2"); is || at != "" {
		t.Errorf("after the command of the docs, w-2 is cordoned: %t, with the annotation %q", is, at)
	}
}

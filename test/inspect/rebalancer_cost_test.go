package inspect

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/plan"
)

// TestRebalancer_DeletionCost has w-1 at 62.5 + 20 = 82.5 %, and later at 25 + 20 %. The cost of web-3 is the user's.
func TestRebalancer_DeletionCost(t *testing.T) {
	heat(t)
	ctx, pods := t.Context(), shared.Client.CoreV1().Pods(metav1.NamespaceDefault)
	must(t, shared.CreatePods(ctx, member("web", "web-3", "w-1", "10m")))
	_, err := pods.Patch(ctx, "web-3", types.MergePatchType,
		[]byte(`{"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "7"}}}`), metav1.PatchOptions{})
	must(t, err)
	createState(t, metav1.NamespaceDefault)
	r := runRebalancer(t, "costs", limitsIn(t, api.DeletionCost, ""), movingConfiguration, rebalancerAccount(t, rebalancerRules(t, api.DeletionCost)...))
	r.stays("a pause", func() bool { return r.metric(`stopped{reason="Paused"}`) == 1 && r.metric("hot_nodes") == 1 })
	read := func() map[string]*corev1.Pod {
		t.Helper()
		list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		must(t, err)
		found := map[string]*corev1.Pod{}
		for i := range list.Items {
			found[list.Items[i].Name] = &list.Items[i]
		}
		return found
	}
	before := read()
	pause(t, false)
	r.until("a cost is written", func() bool { return r.metric("deletion_costs") == 1 })
	after := read()
	cost, own := after["web-1"].Annotations[corev1.PodDeletionCost], after["web-1"].Annotations[plan.DeletionCostAnnotation]
	if n, err := strconv.Atoi(cost); err != nil || n > -1 || n < -20 || own != cost {
		t.Errorf("web-1 has the cost %q, and %q of the rebalancer, want that of 82.5 %%", cost, own)
	}
	// web-1 has changed in nothing else, and other pods have not changed at all.
	for name, pod := range after {
		if name == "web-1" {
			delete(pod.Annotations, corev1.PodDeletionCost)
			delete(pod.Annotations, plan.DeletionCostAnnotation)
		}
		for _, p := range []*corev1.Pod{before[name], pod} {
			p.ManagedFields, p.ResourceVersion, p.Generation = nil, "", 0
		}
		if diff := cmp.Diff(before[name], pod); diff != "" {
			t.Errorf("pod %s has changed (-before +after):\n%s", name, diff)
		}
	}
	pause(t, true)
	r.until("a pause", func() bool { return r.metric(`stopped{reason="Paused"}`) == 1 })
	runDocumented(t, "kubectl get pods -A -o jsonpath=")
	if got, want := read()["web-1"].Annotations, before["web-1"].Annotations; !maps.Equal(got, want) {
		t.Errorf("web-1 has the annotations %q after the command of the docs, want %q", got, want)
	}
	pause(t, false)
	r.until("a cost is written again", func() bool { return r.metric("deletion_costs") == 1 })
	setLoad(t, "w-1", "2")
	r.until("w-1 has cooled", func() bool { return r.metric("hot_nodes") == 0 && r.metric("deletion_costs") == 0 })
	after = read()
	if got, want := after["web-3"].Annotations, before["web-3"].Annotations; got[corev1.PodDeletionCost] != "7" || !maps.Equal(got, want) {
		t.Errorf("web-3 has the annotations %q, want those of the user: %q", got, want)
	}
	for _, name := range []string{corev1.PodDeletionCost, plan.DeletionCostAnnotation} {
		if value, ok := after["web-1"].Annotations[name]; ok {
			t.Errorf("web-1 still has %s: %q", name, value)
		}
	}
	checkRequests(t, "create leases", "get configmaps", "get leases", "patch pods", "update leases")
}

// runDocumented runs the command of docs/rebalance.md that starts so.
func runDocumented(t *testing.T, start string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "rebalance.md"))
	must(t, err)
	_, command, found := strings.Cut(string(page), "    "+start)
	command, _, ends := strings.Cut(command, "\n\n")
	if !found || !ends {
		t.Fatalf("docs/rebalance.md has no command %s...", start)
	}
	shell := exec.CommandContext(t.Context(), "sh", "-e", "-c", start+command)
	shell.Env = []string{"PATH=" + shared.binDir + ":" + os.Getenv("PATH"), "KUBECONFIG=" + shared.AdminKubeconfig, "HOME=" + t.TempDir()}
	if output, err := shell.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
}

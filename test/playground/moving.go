package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/kube"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/plan"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
	"github.com/plimsoll-scheduler/plimsoll/test/playground/bar"
)

//go:embed moving.yaml
var movingScheduler string

//go:embed rebalancer.yaml
var rebalancerConfig string

const (
	movingProfile = "moving"
	// movingState is the name of the ConfigMap with the rebalancer's state.
	movingState = "rebalancer"
	movingLine  = 0.80
	// crowded is the node that becomes hot, and quiet the other one.
	crowded, quiet = "crowded", "quiet"
	// rest is how long nothing may move afterwards.
	rest = time.Minute
	// grown is the usage of the pod that grows, in cores.
	grown = "3"
)

// movingPods are a volatile pod and its neighbors. Of orders and cart, a replica is on each node.
func movingPods() []cluster.Pod {
	return []cluster.Pod{
		movingPod("report-1", "report", crowded, "800m"), movingPod("orders-1", "orders", crowded, "1900m"),
		movingPod("cart-1", "cart", crowded, "1600m"), movingPod("orders-2", "orders", quiet, "100m"),
		movingPod("cart-2", "cart", quiet, "100m"),
	}
}

func movingPod(name, workload, node, cpu string) cluster.Pod {
	return cluster.Pod{
		Name: name, Node: node, Scheduler: movingProfile, ReplicaSet: workload, Usage: cluster.Usage{CPU: cpu},
		Labels: map[string]string{"scenario": "moving", "app": workload},
	}
}

// moving is the result of the scenario.
type moving struct {
	// before, hot and after are the CPU utilizations before the pod grew, then, and after the move.
	before, hot, after map[string]float64
	// moves are all moves until the end of the rest.
	moves []plan.Record
	// nodes are those of the pods in the end, by name.
	nodes map[string]string
}

func runMoving(ctx context.Context, p *playground) (result result) {
	p.progress.say("moving: a pod grows after it was placed, and makes its node hot")
	for node, cpu := range map[string]string{crowded: "500m", quiet: "800m"} {
		p.createNode(ctx, node, cluster.Load{Usage: cluster.Usage{CPU: cpu, Memory: "4Gi"}}, nil)
	}
	must(p.CreatePods(ctx, movingPods()...))
	scheduler := got(p.RunScheduler(ctx, movingProfile, "kube-scheduler", movingScheduler))
	scheduler.Supervise(ctx) // it ends if the machine stalls for longer than its Lease
	defer func() { must(scheduler.Stop()) }()
	removeBudgets := p.createBudgets(ctx)
	defer removeBudgets()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	rebalancer := p.startRebalancer(ctx)
	rebalancer.Supervise(ctx)
	defer func() { must(rebalancer.Stop()) }()
	replacement := movingPod("", "cart", "", "1600m")
	go p.Replicate(ctx, 2, replacement)

	// 0.5 + 0.8 + 1.9 + 1.6 of 8 cores are 60 %, and 0.8 + 0.2 are 12.5 %. With 3 in the place of 0.8 cores, it is 87.5 %. The pod
	// that moves has 1.6 cores: 67.5 and 32.5 % are left.
	var r moving
	r.before = p.waitLoad(ctx, window, map[string]float64{crowded: 0.6, quiet: 0.125}, measuringError)
	must(p.SetUsage(ctx, metav1.NamespaceDefault, "report-1", cluster.Usage{CPU: grown}))
	r.hot = p.waitLoad(ctx, window, map[string]float64{crowded: 0.875}, measuringError)
	p.progress.say("%s is at %.1f %%, above its line at %.0f %%; now the pause of moves ends", crowded, 100*r.hot[crowded],
		100*movingLine)
	got(p.Client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Patch(ctx, movingState, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata": {"annotations": {%q: null}}}`, plan.PausedAnnotation), metav1.PatchOptions{}))
	must(wait.PollUntilContextTimeout(ctx, time.Second, 5*time.Minute, true, func(ctx context.Context) (bool, error) {
		r.moves = p.moves(ctx)
		return len(r.moves) > 0, p.Failed()
	}))
	p.progress.say("%s has moved from %s to %s: %s", r.moves[0].Pod, r.moves[0].From, r.moves[0].Node, r.moves[0].Outcome)
	r.after = p.waitLoad(ctx, window, map[string]float64{crowded: 0.675, quiet: 0.325}, measuringError)
	p.progress.say("waiting for %v: nothing may move", rest)
	p.sleep(ctx, rest)
	r.moves = p.moves(ctx)
	r.nodes = got(p.WaitBound(ctx, map[string]string{"scenario": "moving"}, len(movingPods())))
	return r
}

// createBudgets creates PodDisruptionBudgets, and returns how to delete them. No controller sets their status here: cart may lose a
// pod, and orders none.
func (p *playground) createBudgets(ctx context.Context) (remove func()) {
	budgets := p.Client.PolicyV1().PodDisruptionBudgets(metav1.NamespaceDefault)
	for app, allowed := range map[string]int32{"cart": 1, "orders": 0} {
		b := got(budgets.Create(ctx, &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: app},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
		}, metav1.CreateOptions{}))
		b.Status = policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: b.Generation, DisruptionsAllowed: allowed, CurrentHealthy: 2, DesiredHealthy: 2 - allowed, ExpectedPods: 2,
		}
		got(budgets.UpdateStatus(ctx, b, metav1.UpdateOptions{}))
	}
	return func() { must(budgets.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})) }
}

// startRebalancer runs the rebalancer. Moves are paused.
func (p *playground) startRebalancer(ctx context.Context) cluster.Replica {
	got(p.Client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: movingState, Annotations: map[string]string{plan.PausedAnnotation: "true"}},
	}, metav1.CreateOptions{}))
	dir := filepath.Dir(p.SchedulerConfiguration())
	config := filepath.Join(dir, "rebalancer.yaml")
	must(os.WriteFile(config, []byte(rebalancerConfig), 0o600))
	return got(p.RunRebalancer(ctx, "rebalancer", "--config="+config, "--state="+metav1.NamespaceDefault+"/"+movingState,
		"--scheduler-config="+filepath.Join(dir, movingProfile+".yaml"), "--kubeconfig="+p.AdminKubeconfig))
}

// moves returns the moves that ended.
func (p *playground) moves(ctx context.Context) []plan.Record {
	held := got(p.Client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(ctx, movingState, metav1.GetOptions{}))
	return got(plan.DecodeState(kube.StateOf(held))).Records
}

func (r moving) write(page page) {
	page.line("Two nodes with their load line | at %.0f %%. Pod report-1 grows, and its node becomes hot.", 100*movingLine)
	page.line("report-1 is a single replica, and a PodDisruptionBudget allows no eviction of orders-1: both stay.")
	for _, step := range []struct {
		name     string
		measured map[string]float64
	}{{"before", r.before}, {"hot", r.hot}, {"after the move", r.after}} {
		page.line("%s", step.name)
		for _, node := range slices.Sorted(maps.Keys(step.measured)) {
			measured := step.measured[node]
			page.line("  %-8s %5.1f %%  %s", node, 100*measured, page.bar(bar.Bar{Measured: measured, Line: movingLine}))
		}
	}
	for i := range r.moves {
		m := &r.moves[i]
		page.line("%s moved from %s to %s, expected on %s: %s", m.Pod, m.From, m.Node, m.To, m.Outcome)
	}
	page.line("Then nothing moved for %v.", rest)
}

func (r moving) check() error {
	var errs []error
	if len(r.moves) != 1 {
		errs = append(errs, fmt.Errorf("%d pods moved, must be 1, and none at rest", len(r.moves)))
	}
	for i := range r.moves {
		if m := &r.moves[i]; m.Pod != "cart-1" || m.Node != quiet || m.Outcome != plan.Landed {
			errs = append(errs, fmt.Errorf("%s moved to %s (%s), must be cart-1 to %s (%s)", m.Pod, m.Node, m.Outcome, quiet, plan.Landed))
		}
	}
	for _, pod := range []string{"report-1", "orders-1"} {
		if node := r.nodes[pod]; node != crowded {
			errs = append(errs, fmt.Errorf("%s is on %q, must be on %s: it may not be evicted", pod, node, crowded))
		}
	}
	return errors.Join(errs...)
}

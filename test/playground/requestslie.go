package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

const (
	// liarPods is how many pods each profile places, liarUsage what each of them really uses of a node.
	liarPods  = 40
	liarUsage = 0.025
	liarCPU   = "200m"
	// showWindow is short: by then nothing changes any more, and nobody likes to wait.
	showWindow = 4 * time.Second
)

// liar is a node whose requests say something else than its load.
type liar struct {
	name string
	// busy nodes have small requests and much load, the others large requests and little load.
	busy bool
	load float64
}

// liars returns ten quiet nodes at 4 to 13 % and ten busy nodes at 81 to 90 %.
func liars() []liar {
	var nodes []liar
	for i := range 10 {
		nodes = append(nodes, liar{name: fmt.Sprintf("quiet-%02d", i+1), load: 0.04 + 0.01*float64(i)})
	}
	for i := range 10 {
		nodes = append(nodes, liar{name: fmt.Sprintf("busy-%02d", i+1), busy: true, load: 0.81 + 0.01*float64(i)})
	}
	return nodes
}

// background returns the load of the node before pods are placed.
func (l liar) background() cluster.Load {
	// Of 8 cores and 32 Gi, a quiet node has room for eight of the pods to come, a busy one seems to have it for 76.
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("7200m"), corev1.ResourceMemory: resource.MustParse("28Gi")}
	if l.busy {
		requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("400m"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	}
	return cluster.Load{
		Usage:    cluster.Usage{CPU: strconv.FormatFloat(8*l.load, 'f', 3, 64), Memory: "1Gi"},
		Requests: requests,
	}
}

// requestsLie is what became of both profiles.
type requestsLie struct {
	plimsoll, stock placement
}

func runRequestsLie(ctx context.Context, p *playground) (result, error) {
	p.progress.say("requests lie: 20 nodes, half of them idle behind large requests, half hot behind small ones")
	before := map[string]float64{}
	for _, n := range liars() {
		if err := p.CreateNodes(ctx, cluster.Node{Name: n.name, CPU: "8", Memory: "32Gi"}); err != nil {
			return nil, err
		}
		if err := p.SetLoad(ctx, n.name, n.background()); err != nil {
			return nil, err
		}
		before[n.name] = n.load
	}
	if _, err := p.WaitCPUUtilization(ctx, settled(before)); err != nil {
		return nil, err
	}
	plimsoll, err := p.placeLiars(ctx, plimsollProfile, before)
	if err != nil {
		return nil, err
	}
	// The second profile finds the nodes as the first one did.
	if err := p.DeletePods(ctx, metav1.NamespaceDefault, metav1.ListOptions{}); err != nil {
		return nil, err
	}
	if _, err := p.WaitCPUUtilization(ctx, cluster.Expectation{Window: showWindow, CPU: before, Tolerance: 0.005}); err != nil {
		return nil, err
	}
	stock, err := p.placeLiars(ctx, stockProfile, before)
	if err != nil {
		return nil, err
	}
	return requestsLie{plimsoll: plimsoll, stock: stock}, nil
}

// placeLiars has a profile place pods, all at once, on nodes with the given loads.
func (p *playground) placeLiars(ctx context.Context, profile string, before map[string]float64) (placement, error) {
	p.progress.say("%d pods for %s, then waiting for Prometheus to see what they do", liarPods, profile)
	labels := map[string]string{"profile": profile}
	for i := range liarPods {
		if err := p.CreatePods(ctx, cluster.Pod{
			Name: fmt.Sprintf("%s-%02d", profile, i+1), Scheduler: profile, Labels: labels,
			Resources: resources("100m", liarCPU), Usage: cluster.Usage{CPU: liarCPU, Memory: "64Mi"},
		}); err != nil {
			return placement{}, err
		}
	}
	bound, err := p.WaitBound(ctx, labels, liarPods)
	if err != nil {
		return placement{}, err
	}
	pods, after := map[string]int{}, maps.Clone(before)
	for _, node := range bound {
		pods[node]++
		after[node] += liarUsage
	}
	measured, err := p.WaitCPUUtilization(ctx, cluster.Expectation{Window: showWindow, CPU: after, Tolerance: 0.005})
	return placement{profile: profile, pods: pods, measured: measured}, err
}

// onBusy returns how many pods are on busy nodes.
func (pl placement) onBusy() int {
	n := 0
	for _, node := range liars() {
		if node.busy {
			n += pl.pods[node.name]
		}
	}
	return n
}

func (r requestsLie) write(page page) {
	page.line("The same %d pods under each profile. Each bar is a node's CPU, the mark | its load line at %.0f %%,", liarPods, 100*target)
	page.line("the figure behind it how many of the pods it got. busy-* have small requests, quiet-* large ones.")
	var names []string
	for _, n := range liars() {
		names = append(names, n.name)
	}
	page.sideBySide(names, r.plimsoll, r.stock,
		fact{"hottest", placement.hottestNode},
		fact{fmt.Sprintf("> %.0f %%", 100*hot), func(pl placement) string { return fmt.Sprintf("%d nodes", len(pl.above(hot))) }},
		fact{"on busy", func(pl placement) string { return fmt.Sprintf("%d of %d pods", pl.onBusy(), liarPods) }},
	)
}

func (r requestsLie) check() error {
	var errs []error
	if n := r.plimsoll.onBusy(); n != 0 {
		errs = append(errs, fmt.Errorf("%s put %d pods on busy nodes, must be none", r.plimsoll.profile, n))
	}
	for _, node := range liars() {
		if utilization := r.plimsoll.measured[node.name]; !node.busy && utilization > target {
			errs = append(errs, fmt.Errorf("%s filled %s to %.1f %%, above the load line", r.plimsoll.profile, node.name, 100*utilization))
		}
	}
	if n := r.stock.onBusy(); n <= liarPods/2 {
		errs = append(errs, fmt.Errorf("%s put %d pods on busy nodes, where requests should have lured most of them", r.stock.profile, n))
	}
	if a, b := r.plimsoll.measured[r.plimsoll.hottest()], r.stock.measured[r.stock.hottest()]; a >= b {
		errs = append(errs, fmt.Errorf("the hottest node of %s, at %.1f %%, is no cooler than that of %s", r.plimsoll.profile, 100*a, r.stock.profile))
	}
	return errors.Join(errs...)
}

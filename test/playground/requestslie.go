package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

const (
	// liePods is the number of pods that each profile places.
	liePods = 40
	// lieRequest and lieCPU are each pod's request and its real usage. lieShare is its usage as a share of a node.
	lieRequest = "100m"
	lieCPU     = "200m"
	lieShare   = 0.025
	// lieLimit is the utilization above which a node is beyond the load line for certain. Measurements may be off by one pod's share.
	lieLimit = target + lieShare
)

// lieNode is a node, of 8 cores, whose requests contradict its load.
type lieNode struct {
	name string
	// busy nodes have small requests and a high load; the others have large requests and a low load.
	busy bool
	// load is the utilization before pods are placed.
	load float64
}

// lieNodes returns ten quiet nodes at 4 to 13 % and ten busy nodes at 81 to 90 %.
func lieNodes() []lieNode {
	var nodes []lieNode
	for i := range 10 {
		nodes = append(nodes, lieNode{name: fmt.Sprintf("quiet-%02d", i+1), load: 0.04 + 0.01*float64(i)})
	}
	for i := range 10 {
		nodes = append(nodes, lieNode{name: fmt.Sprintf("busy-%02d", i+1), busy: true, load: 0.81 + 0.01*float64(i)})
	}
	return nodes
}

func (n lieNode) background() cluster.Load {
	// By requests, a quiet node has room for 8 of the pods, and a busy one for 76.
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("7200m"), corev1.ResourceMemory: resource.MustParse("28Gi")}
	if n.busy {
		requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("400m"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	}
	return cluster.Load{Usage: cluster.Usage{CPU: strconv.FormatFloat(8*n.load, 'f', 3, 64), Memory: "1Gi"}, Requests: requests}
}

type requestsLie struct {
	plimsoll, stock placement
}

func runRequestsLie(ctx context.Context, p *playground) result {
	p.progress.say("requests lie: ten quiet nodes with large requests and ten busy nodes with small ones")
	before := map[string]float64{}
	for _, n := range lieNodes() {
		p.createNode(ctx, n.name, n.background(), nil)
		before[n.name] = n.load
	}
	p.waitLoad(ctx, before, lieShare)
	plimsoll := p.placeLiePods(ctx, plimsollProfile, before)
	// The second profile starts from the same load.
	must(p.DeletePods(ctx, metav1.NamespaceDefault, metav1.ListOptions{LabelSelector: "profile"}))
	p.waitLoad(ctx, before, lieShare)
	stock := p.placeLiePods(ctx, stockProfile, before)
	return requestsLie{plimsoll: plimsoll, stock: stock}
}

// placeLiePods has a profile place the pods, all at once. before holds the utilization of each node without them.
func (p *playground) placeLiePods(ctx context.Context, profile string, before map[string]float64) placement {
	p.progress.say("%d pods for profile %s; waiting for their load to be measured", liePods, profile)
	labels := map[string]string{"profile": profile}
	for i := range liePods {
		must(p.CreatePods(ctx, cluster.Pod{
			Name: fmt.Sprintf("%s-%02d", profile, i+1), Scheduler: profile, Labels: labels,
			Resources: resources(lieRequest, lieCPU), Usage: cluster.Usage{CPU: lieCPU, Memory: "64Mi"},
		}))
	}
	bound := got(p.WaitBound(ctx, labels, liePods))
	pods, after := map[string]int{}, maps.Clone(before)
	for _, node := range bound {
		pods[node]++
		after[node] += lieShare
	}
	measured := got(p.WaitCPUUtilization(ctx, cluster.Expectation{Window: window, CPU: after, Tolerance: lieShare, For: window}))
	return placement{profile: profile, pods: pods, measured: measured}
}

func (pl placement) onBusy() int {
	n := 0
	for _, node := range lieNodes() {
		if node.busy {
			n += pl.pods[node.name]
		}
	}
	return n
}

func (r requestsLie) write(page page) {
	page.line("%d pods for each profile; each requests %s and uses %s. The requests on busy-* nodes are small,", liePods, lieRequest,
		lieCPU)
	page.line("those on quiet-* nodes large. A bar is a node's measured CPU, | the load line at %.0f %%, +n its pods.", 100*target)
	page.line("A measurement may be off by one pod's share: a node is beyond the line only above %s.", percent(lieLimit))
	var names []string
	for _, n := range lieNodes() {
		names = append(names, n.name)
	}
	page.sideBySide(names, target, r.plimsoll, r.stock,
		fact{"hottest", placement.hottestNode},
		fact{fmt.Sprintf("> %.0f %%", 100*load.Hot), func(pl placement) string { return text.Count(len(pl.above(load.Hot)), "node") }},
		fact{"on busy", func(pl placement) string { return fmt.Sprintf("%d of %d pods", pl.onBusy(), liePods) }},
	)
}

func (r requestsLie) check() error {
	var errs []error
	if n := r.plimsoll.onBusy(); n != 0 {
		errs = append(errs, fmt.Errorf("%s put %s on busy nodes, must be none", r.plimsoll.profile, text.Count(n, "pod")))
	}
	for _, node := range lieNodes() {
		if utilization := r.plimsoll.measured[node.name]; !node.busy && utilization > lieLimit {
			errs = append(errs, fmt.Errorf("%s filled %s to %.1f %%, above the load line by more than one pod's share",
				r.plimsoll.profile, node.name, 100*utilization))
		}
	}
	if n := r.stock.onBusy(); n <= liePods/2 {
		errs = append(
			errs,
			fmt.Errorf("%s put %s on busy nodes, must be more than half of them because their requests are small", r.stock.profile,
				text.Count(n, "pod")),
		)
	}
	// The stock profile puts four pods on every busy node: no error of one pod's share turns this round.
	if a, b := r.plimsoll.measured[r.plimsoll.hottest()], r.stock.measured[r.stock.hottest()]; a >= b {
		errs = append(errs, fmt.Errorf("the hottest node is at %.1f %% under %s, must be below the %.1f %% under %s",
			100*a, r.plimsoll.profile, 100*b, r.stock.profile))
	}
	return errors.Join(errs...)
}

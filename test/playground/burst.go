package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

const (
	// burstPods is the number of pods that each profile gets at once.
	burstPods = 100
	// burstCPU is what each pod requests and really uses; burstShare is the same as a share of a node.
	burstCPU   = "100m"
	burstShare = 0.0125
	// burstEnd is the end of the measurement, as the time since the last pod was bound. burstMeasured is its length: thirty samples
	// even out the error of one.
	burstEnd      = time.Minute
	burstMeasured = 30 * time.Second
	// burstLimit is the utilization above which a node is beyond the load line for certain. One pod's share is allowed. By that much
	// the measurement may be off when the scheduler places a node's last pod.
	burstLimit = target + burstShare
)

// burstNode is a node of the burst, of 8 cores.
type burstNode struct {
	name string
	// cpuMillis is the real usage before the burst.
	cpuMillis int
}

// burstNodes returns an idle node and nine at 20.3 to 35.3 %. Below the load line they have room for 111 of the pods. The last
// three quarters of a pod's share stay free on each of the nine. So no small error makes room for one more pod.
func burstNodes() []burstNode {
	nodes := []burstNode{{name: "idle"}}
	for i, millis := range []int{1625, 1825, 1925, 2125, 2225, 2425, 2525, 2725, 2825} {
		nodes = append(nodes, burstNode{name: fmt.Sprintf("loaded-%d", i+1), cpuMillis: millis})
	}
	return nodes
}

// background returns the load of the node before the burst. The nine request 2 cores and use 1.63 to 2.83.
func (n burstNode) background() cluster.Load {
	if n.cpuMillis == 0 {
		return cluster.Load{Usage: cluster.Usage{CPU: "0", Memory: "1Gi"}}
	}
	return cluster.Load{
		Usage:    cluster.Usage{CPU: fmt.Sprintf("%dm", n.cpuMillis), Memory: "8Gi"},
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("8Gi")},
	}
}

func (n burstNode) in(profile string) string { return inPoolOf(profile, n.name) }

// burst is the result of the scenario. It names nodes without their pool.
type burst struct {
	plimsoll, stock placement
}

// runBurst gives each profile a pool of nodes of its own, so that the profiles do not affect each other.
func runBurst(ctx context.Context, p *playground) result {
	p.progress.say("burst: ten nodes for each profile, one idle and nine with some load")
	before := map[string]float64{}
	for _, profile := range []string{burstProfile, stockProfile} {
		for _, n := range burstNodes() {
			name := n.in(profile)
			p.createNode(ctx, name, n.background(), pool(profile))
			before[name] = float64(n.cpuMillis) / 8000
		}
	}
	p.progress.say("waiting for %s of measurements", burstWindow)
	// Over a minute measurements are exact enough to ask for less than half of a pod's share.
	p.waitLoadOver(ctx, burstWindow, before, 0.4*burstShare)
	var pods [2]map[string]int
	var bound [2]time.Time
	for i, profile := range []string{burstProfile, stockProfile} {
		pods[i], bound[i] = p.startBurst(ctx, profile)
	}
	p.progress.say("measuring the nodes until %.0f s after each burst", burstEnd.Seconds())
	var placements [2]placement
	for i, profile := range []string{burstProfile, stockProfile} {
		var names, nodes []string
		for _, n := range burstNodes() {
			names, nodes = append(names, n.name), append(nodes, n.in(profile))
		}
		measured := got(p.WaitCPUUtilizationAt(ctx, bound[i].Add(burstEnd), burstMeasured, nodes...))
		placements[i] = inPool(profile, names, pods[i], measured)
	}
	return burst{plimsoll: placements[0], stock: placements[1]}
}

// startBurst creates all pods of a profile at once and waits until they are bound. It returns the number of pods on each node and
// the time at which all were bound.
func (p *playground) startBurst(ctx context.Context, profile string) (map[string]int, time.Time) {
	labels := map[string]string{"burst": profile}
	quantities := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse(burstCPU),
		corev1.ResourceMemory: resource.MustParse("400Mi"),
	}
	began := time.Now()
	for i := range burstPods {
		must(p.CreatePods(ctx, cluster.Pod{
			Name: fmt.Sprintf("burst-%s-%03d", profile, i+1), Scheduler: profile, Labels: labels, NodeSelector: pool(profile),
			Resources: corev1.ResourceRequirements{Requests: quantities, Limits: quantities},
			Usage:     cluster.Usage{CPU: burstCPU, Memory: "400Mi"},
		}))
	}
	nodes := got(p.WaitBound(ctx, labels, burstPods))
	end := time.Now()
	p.progress.say("%d pods for profile %s, all bound within %.1f s", burstPods, profile, end.Sub(began).Seconds())
	pods := map[string]int{}
	for _, node := range nodes {
		pods[node]++
	}
	return pods, end
}

func (r burst) write(page page) {
	page.line("%d pods at once for each profile; each requests and uses %s of 8 cores. One node is idle, nine", burstPods, burstCPU)
	page.line("request 2 cores and use 1.63 to 2.83. A bar is a node's CPU, measured from %.0f to %.0f s after all pods",
		(burstEnd - burstMeasured).Seconds(), burstEnd.Seconds())
	page.line("were bound, | the load line at %.0f %%, +n its pods. A measurement may be off by one pod's share: a", 100*target)
	page.line("node is beyond the line only above %s.", percent(burstLimit))
	var names []string
	for _, n := range burstNodes() {
		names = append(names, n.name)
	}
	page.sideBySide(names, target, r.plimsoll, r.stock,
		fact{"hottest", placement.hottestNode},
		fact{"> " + percent(burstLimit), func(pl placement) string { return text.Count(len(pl.above(burstLimit)), "node") }},
		fact{"with room", func(pl placement) string { return text.Count(len(pl.withRoom(burstShare, target)), "node") }},
	)
}

func (r burst) check() error {
	var errs []error
	if total := r.plimsoll.total(); total != burstPods {
		errs = append(errs, fmt.Errorf("%s placed %d of %d pods on its nodes", r.plimsoll.profile, total, burstPods))
	}
	if n := len(r.plimsoll.measured); n != len(burstNodes()) {
		errs = append(errs, fmt.Errorf("%d of %d nodes are measured", n, len(burstNodes())))
	}
	if over, free := r.plimsoll.above(burstLimit), r.plimsoll.withRoom(burstShare, target); len(over) > 0 && len(free) > 0 {
		errs = append(errs, fmt.Errorf("%s filled %s above %s, which is one pod's share above the load line, while there is room on %s",
			r.plimsoll.profile, strings.Join(over, ", "), percent(burstLimit), strings.Join(free, ", ")))
	}
	return errors.Join(errs...)
}

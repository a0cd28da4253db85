package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

const (
	// burstPods is how many pods each profile is given at once. Each requests what it really uses: burstCPU, which is
	// burstUsage of a node.
	burstPods  = 100
	burstCPU   = "100m"
	burstUsage = 0.0125
	// burstAfter is how long after the last pod was bound the nodes are looked at.
	burstAfter = time.Minute
	// burstNoise is by how much a measurement may be off.
	burstNoise = 0.0025
)

// burstNode is a node of the burst, of 8 cores.
type burstNode struct {
	name string
	// cpu is the real usage in milliCPU.
	cpu int
}

// burstNodes returns an idle node and nine at 20.3 to 35.3 %. Together they have room for 111 of the pods below the load
// line. When one of the nine is as full as it may be, three quarters of a pod are left: no small error makes that one more.
func burstNodes() []burstNode {
	nodes := []burstNode{{name: "idle"}}
	for i, cpu := range []int{1625, 1825, 1925, 2125, 2225, 2425, 2525, 2725, 2825} {
		nodes = append(nodes, burstNode{name: fmt.Sprintf("loaded-%d", i+1), cpu: cpu})
	}
	return nodes
}

// background returns the load of the node before the burst. What the nine request is about right: 2 cores, where they use
// 1.63 to 2.83.
func (n burstNode) background() cluster.Load {
	if n.cpu == 0 {
		return cluster.Load{Usage: cluster.Usage{CPU: "0", Memory: "1Gi"}}
	}
	return cluster.Load{
		Usage:    cluster.Usage{CPU: fmt.Sprintf("%dm", n.cpu), Memory: "8Gi"},
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("8Gi")},
	}
}

// in returns the name of the node in the pool of a profile.
func (n burstNode) in(profile string) string { return profile + "-" + n.name }

// burst is what became of both profiles. Nodes are named without their pool.
type burst struct {
	plimsoll, stock placement
}

// runBurst gives each profile a pool of nodes of its own, so that neither sees what the other does.
func runBurst(ctx context.Context, p *playground) (result, error) {
	p.progress.say("burst: for each profile a pool of 10 nodes, one of them idle and nine moderately loaded")
	before := map[string]float64{}
	for _, profile := range []string{burstProfile, stockProfile} {
		for _, n := range burstNodes() {
			name := n.in(profile)
			if err := p.CreateNodes(ctx, cluster.Node{Name: name, CPU: "8", Memory: "32Gi", Labels: pool(profile)}); err != nil {
				return nil, err
			}
			if err := p.SetLoad(ctx, name, n.background()); err != nil {
				return nil, err
			}
			before[name] = float64(n.cpu) / 8000
		}
	}
	p.progress.say("waiting for %s of measurements", burstWindow)
	expected := settled(before)
	expected.Window = burstWindow
	if _, err := p.WaitCPUUtilization(ctx, expected); err != nil {
		return nil, err
	}
	var pods [2]map[string]int
	var bound [2]time.Time
	for i, profile := range []string{burstProfile, stockProfile} {
		var err error
		if pods[i], bound[i], err = p.unleash(ctx, profile); err != nil {
			return nil, err
		}
	}
	p.progress.say("looking at the nodes one minute after each burst")
	var placements [2]placement
	for i, profile := range []string{burstProfile, stockProfile} {
		measured, err := p.measuredAt(ctx, bound[i].Add(burstAfter))
		if err != nil {
			return nil, err
		}
		placements[i] = inPool(profile, pods[i], measured)
	}
	return burst{plimsoll: placements[0], stock: placements[1]}, nil
}

func pool(profile string) map[string]string { return map[string]string{"pool": profile} }

// unleash gives a profile all pods at once. It returns how many each node got, and when the last of them was bound.
func (p *playground) unleash(ctx context.Context, profile string) (map[string]int, time.Time, error) {
	labels := map[string]string{"burst": profile}
	quantities := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(burstCPU), corev1.ResourceMemory: resource.MustParse("400Mi")}
	began := time.Now()
	for i := range burstPods {
		if err := p.CreatePods(ctx, cluster.Pod{
			Name: fmt.Sprintf("burst-%s-%03d", profile, i+1), Scheduler: profile, Labels: labels, NodeSelector: pool(profile),
			Resources: corev1.ResourceRequirements{Requests: quantities, Limits: quantities},
			Usage:     cluster.Usage{CPU: burstCPU, Memory: "400Mi"},
		}); err != nil {
			return nil, time.Time{}, err
		}
	}
	nodes, err := p.WaitBound(ctx, labels, burstPods)
	if err != nil {
		return nil, time.Time{}, err
	}
	end := time.Now()
	p.progress.say("%d pods for %s, all bound %.1f s after the first was created", burstPods, profile, end.Sub(began).Seconds())
	pods := map[string]int{}
	for _, node := range nodes {
		pods[node]++
	}
	return pods, end, nil
}

// measuredAt returns each node's true load at a moment to come: its mean over a few seconds up to then.
func (p *playground) measuredAt(ctx context.Context, moment time.Time) (map[string]float64, error) {
	// What belongs to the moment has been scraped a little later.
	const scraped = 2 * time.Second
	timer := time.NewTimer(time.Until(moment.Add(scraped)))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-timer.C:
	}
	if err := p.Failed(); err != nil {
		return nil, err
	}
	return p.CPUUtilizationAt(ctx, moment, showWindow)
}

// inPool returns the placement of a profile in its own pool.
func inPool(profile string, pods map[string]int, measured map[string]float64) placement {
	pl := placement{profile: profile, pods: map[string]int{}, measured: map[string]float64{}}
	for _, n := range burstNodes() {
		pl.pods[n.name] = pods[n.in(profile)]
		if utilization, ok := measured[n.in(profile)]; ok {
			pl.measured[n.name] = utilization
		}
	}
	return pl
}

func (r burst) write(page page) {
	page.line("%d pods at once, each requests and uses %s, on 8-core nodes: one idle, nine that request 2 cores", burstPods, burstCPU)
	page.line("and use 1.63 to 2.83. CPU as measured %.0f s after the last pod was bound; the load line | is %.0f %%.",
		burstAfter.Seconds(), 100*target)
	var names []string
	for _, n := range burstNodes() {
		names = append(names, n.name)
	}
	page.sideBySide(names, r.plimsoll, r.stock,
		fact{"hottest", placement.hottestNode},
		fact{"over line", func(pl placement) string { return fmt.Sprintf("%d nodes", len(pl.above(target+burstNoise))) }},
		fact{"with room", func(pl placement) string { return fmt.Sprintf("%d nodes", len(pl.roomy(burstUsage, target))) }},
	)
}

func (r burst) check() error {
	var errs []error
	total := 0
	for n := range maps.Values(r.plimsoll.pods) {
		total += n
	}
	if total != burstPods {
		errs = append(errs, fmt.Errorf("%s put %d of %d pods into its pool", r.plimsoll.profile, total, burstPods))
	}
	if n := len(r.plimsoll.measured); n != len(burstNodes()) {
		errs = append(errs, fmt.Errorf("%d of %d nodes are measured", n, len(burstNodes())))
	}
	if over, roomy := r.plimsoll.above(target+burstNoise), r.plimsoll.roomy(burstUsage, target); len(over) > 0 && len(roomy) > 0 {
		errs = append(errs, fmt.Errorf("%s filled %s beyond the load line while there is room on %s",
			r.plimsoll.profile, strings.Join(over, ", "), strings.Join(roomy, ", ")))
	}
	return errors.Join(errs...)
}

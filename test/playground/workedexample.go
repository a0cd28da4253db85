package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/targetloadpacking"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
	"github.com/plimsoll-scheduler/plimsoll/test/playground/bar"
)

type exampleNode struct {
	name string
	// load is the node's real usage as a fraction of 8 cores.
	load float64
	// score is what the formula gives for a pod that uses nothing, worked by hand.
	score float64
}

func exampleNodes() []exampleNode {
	return []exampleNode{
		{"worker-1", 0.25, 77.5},      // (100 − 40)·25/40 + 40
		{"worker-2", 0.50, 100.0 / 3}, // 40·(100 − 50)/(100 − 40)
		{"worker-3", 0.10, 55},        // (100 − 40)·10/40 + 40
	}
}

type workedExample struct {
	// measured is the CPU utilization of each node, by the node's name.
	measured map[string]float64
	// landed is the node of the pod. explained is the node that kubectl plimsoll explain would choose, and why its output.
	landed, explained, why string
}

func runWorkedExample(ctx context.Context, p *playground) result {
	p.progress.say("the worked example: three 8-core workers; waiting for %s of measurements", window)
	want := map[string]float64{}
	for _, n := range exampleNodes() {
		p.createNode(ctx, n.name, cluster.Load{Usage: cpuUsage(n.load)}, nil)
		want[n.name] = n.load
	}
	measured := p.waitLoad(ctx, window, want, measuringError)
	labels := map[string]string{"scenario": "worked-example"}
	// The pod uses next to nothing, so that the scores are those of the worked example.
	must(p.CreatePods(ctx, cluster.Pod{Name: "example", Scheduler: plimsollProfile, Labels: labels, Resources: resources("1m", "1m")}))
	bound := got(p.WaitBound(ctx, labels, 1))
	p.progress.say("the pod is on %s", bound["example"])
	why := got(p.plimsoll(ctx, "explain", "example"))
	text := got(p.plimsoll(ctx, "explain", "example", "--output=json"))
	var explained explain.Explanation
	must(json.Unmarshal([]byte(text), &explained))
	return workedExample{
		measured: measured, landed: bound["example"], explained: strings.Join(explained.Decision.Nodes, ", "), why: why,
	}
}

func (w workedExample) write(page page) {
	page.line("Three 8-core workers, the target ◎ at %.0f %%, and a pod that uses next to nothing: it must go to", 100*target)
	page.line("the node with the highest score. A measurement may be off by %s, the share of one pod of 100m.",
		percent(measuringError))
	page.line("  %-10s %9s %7s", "node", "measured", "score")
	for _, n := range exampleNodes() {
		landed := ""
		if n.name == w.landed {
			landed = "  <- the pod"
		}
		page.line("  %-10s %7.1f %% %7.1f  %s%s",
			n.name, 100*w.measured[n.name], w.score(n), page.bar(bar.Bar{Measured: w.measured[n.name], Target: target}), landed)
	}
}

func (w workedExample) score(n exampleNode) float64 {
	cpu := estimate.ResourceEstimate{Mean: w.measured[n.name], Base: 1}
	return targetloadpacking.Terms{CPU: cpu, TargetPercent: 100 * target}.Score()
}

func (w workedExample) check() error {
	for _, n := range exampleNodes() {
		// The score changes by up to (100 − 40)/40 = 1.5 points per point of load.
		if score, tolerance := w.score(n), 100*measuringError*(1-target)/target; math.Abs(score-n.score) > tolerance {
			return fmt.Errorf("%s scores %.1f, must be %.1f ± %.1f", n.name, score, n.score, tolerance)
		}
	}
	if want := exampleNodes()[0].name; w.landed != want {
		return fmt.Errorf("the pod is on %s, must be on %s", w.landed, want)
	}
	if w.explained != w.landed {
		return fmt.Errorf("kubectl plimsoll explain would choose %s, the scheduler chose %s", w.explained, w.landed)
	}
	return nil
}

// waitLoad waits until the nodes' utilizations over a window are measured within the tolerance. It then waits until the scheduler
// has read them. It returns what is measured.
func (p *playground) waitLoad(
	ctx context.Context, over time.Duration, want map[string]float64, tolerance float64,
) map[string]float64 {
	// A window that begins before the load does is measured too low. Within the tolerance it may lack a part of the window, which
	// passes during For.
	measured := got(p.WaitCPUUtilization(ctx,
		cluster.Expectation{Window: over, CPU: want, Tolerance: tolerance, For: 3 * time.Second}))
	must(p.WaitRefresh(ctx))
	return measured
}

func resources(cpuRequest, cpuLimit string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpuRequest)},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpuLimit)},
	}
}

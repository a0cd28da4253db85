package main

import (
	"context"
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/targetloadpacking"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

// exampleNode is a worker of the worked example: its load, and the score that the formula gives it for a pod that uses
// nothing, both worked by hand.
type exampleNode struct {
	name  string
	cpu   string
	load  float64
	score float64
}

func exampleNodes() []exampleNode {
	return []exampleNode{
		{"worker-1", "2000m", 0.25, 77.5},      // (100 − 40)·25/40 + 40
		{"worker-2", "4000m", 0.50, 100.0 / 3}, // 40·(100 − 50)/(100 − 40)
		{"worker-3", "800m", 0.10, 55},         // (100 − 40)·10/40 + 40
	}
}

// workedExample is what became of it.
type workedExample struct {
	// measured is the CPU utilization of each node, by name.
	measured map[string]float64
	landed   string
}

func runWorkedExample(ctx context.Context, p *playground) (result, error) {
	p.progress.say("the worked example: three 8-core workers, waiting for %s of measurements", window)
	want := map[string]float64{}
	for _, n := range exampleNodes() {
		if err := p.CreateNodes(ctx, cluster.Node{Name: n.name, CPU: "8", Memory: "32Gi"}); err != nil {
			return nil, err
		}
		if err := p.SetLoad(ctx, n.name, cluster.Load{Usage: cluster.Usage{CPU: n.cpu, Memory: "4Gi"}}); err != nil {
			return nil, err
		}
		want[n.name] = n.load
	}
	measured, err := p.WaitCPUUtilization(ctx, settled(want))
	if err != nil {
		return nil, err
	}
	labels := map[string]string{"scenario": "worked-example"}
	// A pod that uses next to nothing, so that scores are those of the worked example.
	if err := p.CreatePods(ctx, cluster.Pod{
		Name: "example", Scheduler: plimsollProfile, Labels: labels, Resources: resources("1m", "1m"),
	}); err != nil {
		return nil, err
	}
	bound, err := p.WaitBound(ctx, labels, 1)
	if err != nil {
		return nil, err
	}
	p.progress.say("the pod is on %s", bound["example"])
	return workedExample{measured: measured, landed: bound["example"]}, nil
}

func (w workedExample) write(page page) {
	page.line("Three 8-core workers, load line at %.0f %%, a pod that uses next to nothing.", 100*target)
	page.line("  %-10s %9s %7s", "node", "measured", "score")
	for _, n := range exampleNodes() {
		landed := ""
		if n.name == w.landed {
			landed = "  <- the pod"
		}
		page.line("  %-10s %7.1f %% %7.1f  %s%s",
			n.name, 100*w.measured[n.name], w.score(n), page.paint.bar(w.measured[n.name], target), landed)
	}
}

// score is what the plugin's own formula makes of the measured load.
func (w workedExample) score(n exampleNode) float64 {
	return targetloadpacking.Score(100*w.measured[n.name], 100*target)
}

func (w workedExample) check() error {
	const tolerance = 1
	for _, n := range exampleNodes() {
		if score := w.score(n); math.Abs(score-n.score) > tolerance {
			return fmt.Errorf("%s scores %.1f, must be %.1f", n.name, score, n.score)
		}
	}
	if want := exampleNodes()[0].name; w.landed != want {
		return fmt.Errorf("the pod is on %s, must be on %s", w.landed, want)
	}
	return nil
}

// settled expects utilizations for long enough that the scheduler has read them.
func settled(want map[string]float64) cluster.Expectation {
	return cluster.Expectation{Window: window, CPU: want, Tolerance: 0.005, For: 3 * refreshInterval}
}

// resources returns the resources of a container.
func resources(cpuRequest, cpuLimit string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpuRequest)},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpuLimit)},
	}
}

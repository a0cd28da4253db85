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
)

// exampleNode is a worker of the worked example.
type exampleNode struct {
	name string
	// cpu is the node's real usage, as a quantity, and load the same as a fraction of 8 cores.
	cpu  string
	load float64
	// score is what the formula gives for a pod that uses nothing, worked by hand.
	score float64
}

func exampleNodes() []exampleNode {
	return []exampleNode{
		{"worker-1", "2000m", 0.25, 77.5},      // (100 − 40)·25/40 + 40
		{"worker-2", "4000m", 0.50, 100.0 / 3}, // 40·(100 − 50)/(100 − 40)
		{"worker-3", "800m", 0.10, 55},         // (100 − 40)·10/40 + 40
	}
}

// workedExample is the result of the scenario.
type workedExample struct {
	// measured is the CPU utilization of each node, by the node's name.
	measured map[string]float64
	// landed is the node of the pod, explained the one that kubectl plimsoll explain would choose, and why what it says.
	landed, explained, why string
}

func runWorkedExample(ctx context.Context, p *playground) (result, error) {
	p.progress.say("the worked example: three 8-core workers; waiting for %s of measurements", window)
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
	measured, err := p.waitLoad(ctx, want, measuringError)
	if err != nil {
		return nil, err
	}
	labels := map[string]string{"scenario": "worked-example"}
	// The pod uses next to nothing, so that the scores are those of the worked example.
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
	why, err := p.plimsoll(ctx, "explain", "example")
	if err != nil {
		return nil, err
	}
	text, err := p.plimsoll(ctx, "explain", "example", "--output=json")
	if err != nil {
		return nil, err
	}
	var explained explain.Result
	if err := json.Unmarshal([]byte(text), &explained); err != nil {
		return nil, err
	}
	return workedExample{
		measured:  measured,
		landed:    bound["example"],
		explained: strings.Join(explained.Decision.Nodes, ", "),
		why:       why,
	}, nil
}

func (w workedExample) write(page page) {
	page.line("Three 8-core workers, the load line | at %.0f %%, and a pod that uses next to nothing: it must go to", 100*target)
	page.line(
		"the node with the highest score. A measurement may be off by %s, the share of one pod of 100m.",
		percent(measuringError),
	)
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

// score returns the plugin's score for the measured load.
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

// showWhy writes what kubectl plimsoll explain says of the worked example's pod.
func showWhy(page page, findings []finding) {
	for _, f := range findings {
		if example, ok := f.result.(workedExample); ok {
			page.line("")
			page.line("%s: kubectl plimsoll explain example", page.paint.bold("SEE WHY"))
			page.line("")
			page.line("%s", strings.TrimRight(example.why, "\n"))
		}
	}
}

// waitLoad waits until the nodes' utilizations over the window are measured within the tolerance, and until the scheduler has
// read them. It returns what is measured.
func (p *playground) waitLoad(ctx context.Context, want map[string]float64, tolerance float64) (map[string]float64, error) {
	return p.waitLoadOver(ctx, window, want, tolerance)
}

func (p *playground) waitLoadOver(
	ctx context.Context,
	window time.Duration,
	want map[string]float64,
	tolerance float64,
) (map[string]float64, error) {
	// A window that begins before the load does is measured too low. Within the tolerance it may lack a part of the window, which
	// passes during For.
	measured, err := p.WaitCPUUtilization(
		ctx,
		cluster.Expectation{Window: window, CPU: want, Tolerance: tolerance, For: 3 * time.Second},
	)
	if err != nil {
		return nil, err
	}
	return measured, p.WaitRefresh(ctx)
}

// resources returns the CPU request and limit of a container.
func resources(cpuRequest, cpuLimit string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpuRequest)},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpuLimit)},
	}
}

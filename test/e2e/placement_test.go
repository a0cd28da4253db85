package e2e

import (
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

// exampleWorkers are those of the worked example: at X = 40 they score 77.5, 33.3 and 55.
func exampleWorkers() []worker {
	return []worker{
		{name: "worker-1", usage: cluster.Usage{CPU: "2", Memory: "4Gi"}},
		{name: "worker-2", usage: cluster.Usage{CPU: "4", Memory: "4Gi"}},
		{name: "worker-3", usage: cluster.Usage{CPU: "800m", Memory: "4Gi"}},
	}
}

func exampleLoad() map[string]float64 {
	return map[string]float64{"worker-1": 0.25, "worker-2": 0.50, "worker-3": 0.10}
}

func TestTargetLoadPackingPlacesTheWorkedExampleByPrometheus(t *testing.T) {
	const window = 10 * time.Second
	e := start(t, cluster.Options{
		Scheduler: configuration("TargetLoadPacking", 1, byLoad, "targetUtilization: 40", "window: 10s", prometheus),
	})
	e.workers(exampleWorkers()...)
	_, err := e.WaitCPUUtilization(e.ctx, cluster.Expectation{Window: window, CPU: exampleLoad(), Tolerance: tolerance, For: settle})
	e.must(err)
	for pod, node := range e.place(numbered("example", 5)...) {
		if node != "worker-1" {
			t.Errorf("%s is on %s, want worker-1, which scores 77.5 against 33.3 and 55", pod, node)
		}
	}
}

func TestTargetLoadPackingPlacesTheWorkedExampleByMetricsServer(t *testing.T) {
	e := start(t, cluster.Options{
		MetricsServer: true,
		// metrics-server is the default source.
		Scheduler: configuration("TargetLoadPacking", 1, byLoad, "targetUtilization: 40", "window: 10s"),
	})
	e.workers(exampleWorkers()...)
	// It measures from one of its readings to the next, which are in whole milliseconds.
	e.must(e.WaitMetricsServer(e.ctx, cluster.Expectation{CPU: exampleLoad(), Tolerance: tolerance, For: settle}))
	for pod, node := range e.place(numbered("example", 5)...) {
		if node != "worker-1" {
			t.Errorf("%s is on %s, want worker-1, which scores 77.5 against 33.3 and 55", pod, node)
		}
	}
}

func TestLoadVariationRiskBalancingPrefersTheSteadyOfTwoNodesWithEqualMeans(t *testing.T) {
	const window = 20 * time.Second
	e := start(t, cluster.Options{
		Scheduler: configuration("LoadVariationRiskBalancing", 1, byLoad, "window: 20s", prometheus),
	})
	e.workers(
		worker{name: "a-swinging", usage: cluster.Usage{CPU: "4", Memory: "4Gi", CPUSwing: "2", SwingPeriod: window}},
		worker{name: "b-steady", usage: cluster.Usage{CPU: "4", Memory: "4Gi"}},
		worker{name: "c-swinging", usage: cluster.Usage{CPU: "4", Memory: "4Gi", CPUSwing: "2", SwingPeriod: window}},
	)
	// A swing of a quarter of the node puts the mean out of balance by up to 25 %/20 = 1.25 points, which is worth less than
	// one point of the score; a deviation of a quarter, smoothed to more than half of it, is worth more than six.
	_, err := e.WaitCPUUtilization(e.ctx, cluster.Expectation{
		Window: window, CPU: map[string]float64{"a-swinging": 0.5, "b-steady": 0.5, "c-swinging": 0.5}, Tolerance: 0.02, For: settle,
	})
	e.must(err)
	for pod, node := range e.place(numbered("p", 10)...) {
		if node != "b-steady" {
			t.Errorf("%s is on %s, want the steady node", pod, node)
		}
	}
}

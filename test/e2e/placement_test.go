package e2e

import (
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

// exampleWorkers returns the nodes of the worked example. With a target of 40 % they score 77.5, 33.3 and 55.
func exampleWorkers() []worker {
	return []worker{
		{name: "worker-1", usage: cluster.Usage{CPU: "2", Memory: "4Gi"}},
		{name: "worker-2", usage: cluster.Usage{CPU: "4", Memory: "4Gi"}},
		{name: "worker-3", usage: cluster.Usage{CPU: "800m", Memory: "4Gi"}},
	}
}

// exampleLoad returns the CPU utilizations of exampleWorkers.
func exampleLoad() map[string]float64 {
	return map[string]float64{"worker-1": 0.25, "worker-2": 0.50, "worker-3": 0.10}
}

func TestTargetLoadPacking_WorkedExampleWithPrometheus(t *testing.T) {
	const window = 30 * time.Second
	e := start(t, cluster.Options{
		Scheduler: configuration("TargetLoadPacking", 1, byLoad, "targetUtilization: 40", "window: 30s", trusted, prometheus),
	})
	e.workers(exampleWorkers()...)
	e.waitLoad(window, exampleLoad(), tolerance)
	for pod, node := range e.place(numbered("example", 5)...) {
		if node != "worker-1" {
			t.Errorf("%s is on %s, want worker-1, which scores 77.5 against 33.3 and 55", pod, node)
		}
	}
}

func TestTargetLoadPacking_WorkedExampleWithMetricsServer(t *testing.T) {
	e := start(t, cluster.Options{
		MetricsServer: true,
		// metrics-server is the default source.
		Scheduler: configuration("TargetLoadPacking", 1, byLoad, "targetUtilization: 40", "window: 10s", trusted),
	})
	e.workers(exampleWorkers()...)
	e.must(e.WaitMetricsServer(e.ctx, cluster.Expectation{CPU: exampleLoad(), Tolerance: tolerance}))
	e.must(e.WaitRefresh(e.ctx))
	for pod, node := range e.place(numbered("example", 5)...) {
		if node != "worker-1" {
			t.Errorf("%s is on %s, want worker-1, which scores 77.5 against 33.3 and 55", pod, node)
		}
	}
}

// TestLoadVariationRiskBalancing places pods on nodes with equal means, of which one is steady.
func TestLoadVariationRiskBalancing(t *testing.T) {
	const window = 20 * time.Second
	e := start(t, cluster.Options{
		Scheduler: configuration("LoadVariationRiskBalancing", 1, byLoad, "window: 20s", trusted, prometheus),
	})
	e.workers(worker{name: "a-swinging", usage: cluster.Usage{CPU: "4", Memory: "4Gi", CPUSwing: "2", SwingPeriod: window}},
		worker{name: "b-steady", usage: cluster.Usage{CPU: "4", Memory: "4Gi"}},
		worker{name: "c-swinging", usage: cluster.Usage{CPU: "4", Memory: "4Gi", CPUSwing: "2", SwingPeriod: window}})
	// A swing of a quarter of the node moves the mean by up to 25 %/20 = 1.25 points. That changes the score by less than one point. A
	// deviation of a quarter, smoothed to more than half of it, changes the score by more than six.
	e.waitLoad(window, map[string]float64{"a-swinging": 0.5, "b-steady": 0.5, "c-swinging": 0.5}, 0.0125+tolerance)
	for pod, node := range e.place(numbered("p", 10)...) {
		if node != "b-steady" {
			t.Errorf("%s is on %s, want the steady node", pod, node)
		}
	}
}

package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

// Load draws pods to the node "cool", requests draw them away from it, so that each placement tells what it was decided by.
func TestEveryPodIsBoundWhilePrometheusIsKilledAndRestarted(t *testing.T) {
	const window = 10 * time.Second
	e := start(t, cluster.Options{
		// Beside the plugins that score by requests, with a weight that outvotes them while load is known.
		Scheduler: configuration("TargetLoadPacking", 10, "", "targetUtilization: 40", "window: 10s", "maxAge: 3s", prometheus),
	})
	e.workers(
		// 60·20/40 + 40 = 70.
		worker{name: "cool", usage: cluster.Usage{CPU: "1600m", Memory: "4Gi"}, requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("6")}},
		// 40·30/60 = 20.
		worker{name: "warm-1", usage: cluster.Usage{CPU: "5600m", Memory: "4Gi"}},
		worker{name: "warm-2", usage: cluster.Usage{CPU: "5600m", Memory: "4Gi"}},
	)
	expected := cluster.Expectation{
		Window: window, CPU: map[string]float64{"cool": 0.2, "warm-1": 0.7, "warm-2": 0.7}, Tolerance: tolerance, For: settle,
	}
	_, err := e.WaitCPUUtilization(e.ctx, expected)
	e.must(err)

	arrivals := e.arrive()
	e.until("load decides", arrivals, func(node string) bool { return node == "cool" })
	e.Prometheus.Kill()
	e.until("requests decide once the last load is too old", arrivals, func(node string) bool { return node != "cool" })

	e.must(e.Scheduler.Stop())
	began := time.Now()
	e.must(e.Scheduler.Start(e.ctx))
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("without Prometheus the scheduler needed %.1f s to get ready, want at most 5", took.Seconds())
	}
	e.until("requests decide after a start without Prometheus", arrivals, func(node string) bool { return node != "cool" })

	e.must(e.Prometheus.Start(e.ctx))
	e.until("load decides again", arrivals, func(node string) bool { return node == "cool" })

	created := arrivals.end()
	if _, err := e.WaitBound(e.ctx, arrivalLabels(), created); err != nil {
		t.Fatal(err)
	}
	e.wantPrompt()
	t.Logf("all of %d pods are bound", created)
}

// arrivals are pods that keep arriving.
type arrivals struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	// created is valid after done.
	created int

	mu     sync.Mutex
	newest string
}

func arrivalLabels() map[string]string { return map[string]string{"batch": "arrivals"} }

// arrive creates a pod every fifth of a second until end is called.
func (e environment) arrive() *arrivals {
	ctx, cancel := context.WithCancel(e.ctx)
	e.t.Cleanup(cancel)
	a := &arrivals{cancel: cancel}
	a.done.Go(func() {
		ticker := time.NewTicker(200 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			name := fmt.Sprintf("arrival-%04d", a.created+1)
			// A pod is created or it is not: the end of the arrivals does not come in between.
			if err := e.CreatePods(context.WithoutCancel(ctx), tinyPod(name, arrivalLabels())); err != nil {
				e.t.Error(err)
				return
			}
			a.created++
			a.mu.Lock()
			a.newest = name
			a.mu.Unlock()
		}
	})
	return a
}

// end stops the arrivals and returns how many there were.
func (a *arrivals) end() int {
	a.cancel()
	a.done.Wait()
	return a.created
}

// until waits until a pod that arrives from now on is on a node that is as it should be, and five more after it.
func (e environment) until(what string, a *arrivals, good func(node string) bool) {
	e.t.Helper()
	const inARow = 5
	began := time.Now()
	a.mu.Lock()
	after := a.newest
	a.mu.Unlock()
	last := ""
	err := wait.PollUntilContextTimeout(e.ctx, 200*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		pods, err := e.Client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: "batch=arrivals"})
		if err != nil {
			return false, err
		}
		run := 0
		for _, p := range pods.Items { // In the order of their names.
			switch {
			case p.Name <= after || p.Spec.NodeName == "":
			case good(p.Spec.NodeName):
				run++
			default:
				run = 0
			}
			last = p.Name + " on " + p.Spec.NodeName
		}
		return run >= inARow, nil
	})
	if err != nil {
		e.t.Fatalf("waiting until %s: %v; the last pod is %s", what, err, last)
	}
	e.t.Logf("%s: %.1f s", what, time.Since(began).Seconds())
}

// wantPrompt checks that no pod has waited for long: longer than a restart of the scheduler takes.
func (e environment) wantPrompt() {
	e.t.Helper()
	const longest = 15 * time.Second
	pods, err := e.Client.CoreV1().Pods(metav1.NamespaceDefault).List(e.ctx, metav1.ListOptions{LabelSelector: "batch=arrivals"})
	e.must(err)
	for _, p := range pods.Items {
		for _, condition := range p.Status.Conditions {
			if condition.Type != corev1.PodScheduled {
				continue
			}
			if waited := condition.LastTransitionTime.Sub(p.CreationTimestamp.Time); waited > longest {
				e.t.Errorf("%s has waited for %s until it was bound", p.Name, waited)
			}
		}
	}
}

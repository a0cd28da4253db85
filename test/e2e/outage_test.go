package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

// TestOutage kills Prometheus and starts it again while pods arrive, all of which must be bound. By load pods belong on the node
// "cool", by requests on the others. So each placement shows what it was based on.
func TestOutage(t *testing.T) {
	const window = 10 * time.Second
	e := start(t, cluster.Options{
		// The weight outweighs the plugins that score by requests while load is known.
		Scheduler: configuration("TargetLoadPacking", 10, "", "targetUtilization: 40", "window: 10s", "maxAge: 3s", prometheus),
	})
	e.workers(
		// Score by load at 20 % CPU, below the target of 40: 60·20/40 + 40 = 70.
		worker{name: "cool", usage: cluster.Usage{CPU: "1600m", Memory: "4Gi"}, requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("6")}},
		// Score by load at 70 % CPU, above the target: 40·(100−70)/60 = 20.
		worker{name: "warm-1", usage: cluster.Usage{CPU: "5600m", Memory: "4Gi"}},
		worker{name: "warm-2", usage: cluster.Usage{CPU: "5600m", Memory: "4Gi"}},
	)
	e.waitLoad(window, map[string]float64{"cool": 0.2, "warm-1": 0.7, "warm-2": 0.7}, tolerance)

	arrivals := e.Arrive(e.ctx, 200*time.Millisecond, func(number int) cluster.Pod {
		return tinyPod(arrivalName(number), arrivalLabels())
	})
	e.waitPlacements("load decides", arrivals, func(node string) bool { return node == "cool" })
	e.must(e.Prometheus.Kill())
	e.waitPlacements("requests decide once all load has expired", arrivals, func(node string) bool { return node != "cool" })

	e.must(e.Scheduler.Stop())
	e.must(e.Scheduler.Start(e.ctx)) // fails if the start waits for the source, after minutes
	e.waitPlacements("requests decide after a start without Prometheus", arrivals, func(node string) bool { return node != "cool" })

	e.must(e.Prometheus.Start(e.ctx))
	e.waitPlacements("load decides again", arrivals, func(node string) bool { return node == "cool" })

	created := check.Value(arrivals.End())(t)
	check.Value(e.WaitBound(e.ctx, arrivalLabels(), created))(t)
	e.wantPrompt()
	t.Logf("all %d pods are bound", created)
}

func arrivalLabels() map[string]string { return map[string]string{"batch": "arrivals"} }

func arrivalName(number int) string { return fmt.Sprintf("arrival-%04d", number) }

// waitPlacements waits until the last five bound pods, of those created since the call, are all on a right node.
func (e environment) waitPlacements(what string, a *cluster.Arrivals, right func(node string) bool) {
	e.t.Helper()
	const inARow = 5
	began := time.Now()
	after := arrivalName(a.Created())
	last := ""
	err := wait.PollUntilContextTimeout(e.ctx, 200*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		pods, err := e.Client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: "batch=arrivals"})
		if err != nil {
			return false, err
		}
		run := 0
		for _, p := range pods.Items { // In the order of their names.
			switch {
			case p.Name <= after || p.Spec.NodeName == "":
			case right(p.Spec.NodeName):
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

// wantPrompt checks that no pod has waited longer than a restart of the scheduler takes on a busy machine.
func (e environment) wantPrompt() {
	const longest = 2 * time.Minute
	pods := check.Value(e.Client.CoreV1().Pods(metav1.NamespaceDefault).List(e.ctx,
		metav1.ListOptions{LabelSelector: "batch=arrivals"}))(e.t)
	for _, p := range pods.Items {
		for _, condition := range p.Status.Conditions {
			if condition.Type != corev1.PodScheduled {
				continue
			}
			if waited := condition.LastTransitionTime.Sub(p.CreationTimestamp.Time); waited > longest {
				e.t.Errorf("%s waited %s until it was bound, want at most %s", p.Name, waited, longest)
			}
		}
	}
}

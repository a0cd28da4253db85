package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

// burstConfiguration has a window of a minute. Kubernetes rounds the start times of pods to seconds, which matters little in it.
// The second profile reads the same source with another plugin.
const burstConfiguration = header + `
profiles:
- schedulerName: plimsoll
  plugins:
    score:
      disabled: [{name: NodeResourcesFit}, {name: NodeResourcesBalancedAllocation}]
      enabled: [{name: TargetLoadPacking, weight: 5}]
  pluginConfig:
  - name: TargetLoadPacking
    args: {targetUtilization: 40, window: 1m, refreshInterval: 1s, metricProvider: {type: Prometheus, address: '{{ .Prometheus }}'}}
- schedulerName: balancing
  plugins:
    multiPoint:
      enabled: [{name: LoadVariationRiskBalancing, weight: 5}]
  pluginConfig:
  - name: LoadVariationRiskBalancing
    args: {window: 10s, refreshInterval: 1s, metricProvider: {type: Prometheus, address: '{{ .Prometheus }}'}}
`

// TestBurst creates 100 pods at once under the race detector. No node may pass the load line while another node has room.
func TestBurst(t *testing.T) {
	const (
		line = 0.40
		// cpu is what each of the pods requests and uses, and share the same as a share of a node.
		pods   = 100
		cpu    = "100m"
		share  = 0.0125
		window = time.Minute
		// tiny is the number of pods of the other profile.
		tiny = 20
		// measured is the window of the true load at the end.
		measured = 20 * time.Second
	)
	e := start(t, cluster.Options{Race: true, Scheduler: burstConfiguration})
	// Below the line the idle node has room for 32 pods, the others for 5 to 12, together for 112. The last three quarters of a pod's
	// share stay free on each node. So no small error makes room for one more pod.
	before := map[string]float64{"idle": 0}
	nodes := []worker{{name: "idle", usage: cluster.Usage{CPU: "0", Memory: "1Gi"}}}
	for i, room := range []int{12, 12, 11, 10, 9, 8, 7, 6, 5} {
		millis := 3125 - 100*room
		w := worker{name: fmt.Sprintf("loaded-%d", i+1), usage: cluster.Usage{CPU: fmt.Sprintf("%dm", millis), Memory: "4Gi"}}
		nodes, before[w.name] = append(nodes, w), float64(millis)/8000
	}
	e.workers(nodes...)
	// Over a minute measurements are exact enough to ask for less than half of a pod's share.
	e.waitLoad(window, before, 0.4*share)

	burst, balanced := map[string]string{"batch": "burst"}, map[string]string{"batch": "balanced"}
	quantity := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	group, ctx := errgroup.WithContext(e.ctx)
	group.Go(func() error {
		for _, name := range numbered("burst", pods) {
			if err := e.CreatePods(ctx, cluster.Pod{
				Name: name, Scheduler: profile, Labels: burst, Usage: cluster.Usage{CPU: cpu},
				Resources: corev1.ResourceRequirements{Requests: quantity, Limits: quantity},
			}); err != nil {
				return err
			}
		}
		return nil
	})
	group.Go(func() error {
		for _, name := range numbered("balanced", tiny) {
			pod := tinyPod(name, balanced)
			pod.Scheduler = "balancing"
			if err := e.CreatePods(ctx, pod); err != nil {
				return err
			}
			// Reading the metrics reads all watchers and counters while they are in use.
			if _, err := e.Scheduler.Metrics(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	e.must(group.Wait())
	nodeOf := check.Value(e.WaitBound(e.ctx, burst, pods))(e.t)
	check.Value(e.WaitBound(e.ctx, balanced, tiny))(e.t)

	after := map[string]float64{}
	for node, load := range before {
		after[node] = load
	}
	for _, node := range nodeOf {
		after[node] += share
	}
	trueLoad := check.Value(e.WaitCPUUtilization(e.ctx,
		cluster.Expectation{Window: measured, CPU: after, Tolerance: share, For: measured}))(e.t)
	t.Logf("true load: %v", trueLoad)
	for over, load := range trueLoad {
		for free, other := range trueLoad {
			// One pod's share is allowed. By that much a measurement may be off when the last pod of a node is placed.
			if load > line+share && other+share <= line {
				t.Errorf("%s is at %.1f %%, above the line at %.0f %% by more than one pod's share, while %s at %.1f %% has room for a pod",
					over, 100*load, 100*line, free, 100*other)
			}
		}
	}

	// The race detector also watches the shutdown.
	e.must(e.Scheduler.Stop())
	e.wantNoRace()
}

func (e environment) wantNoRace() {
	log := check.Value(e.Scheduler.Log())(e.t)
	if _, report, found := strings.Cut(log, "WARNING: DATA RACE"); found {
		e.t.Errorf("the race detector found:\n%s", report[:min(len(report), 6000)])
	}
}

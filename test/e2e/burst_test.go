package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

// burstConfiguration is long against the whole seconds in which Kubernetes says when a pod has started. The second profile
// reads the same source by another plugin.
const burstConfiguration = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: {{ .Kubeconfig }}
leaderElection:
  leaderElect: false
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

func TestABurstUnderTheRaceDetectorPassesTheLoadLineNowhereWhileThereIsRoom(t *testing.T) {
	const (
		line = 0.40
		// pods of 100m, which is 1.25 % of a node.
		pods     = 100
		cpu      = "100m"
		usage    = 0.0125
		noise    = 0.0025
		window   = time.Minute
		tiny     = 20
		measured = 4 * time.Second
	)
	e := start(t, cluster.Options{Race: true, Scheduler: burstConfiguration})
	// Below the line an idle node has room for 32 of the pods, the others for 5 to 12, in all for 112; three quarters of a pod
	// are left then, so that no small error of a measurement makes room for one more.
	before := map[string]float64{"idle": 0}
	nodes := []worker{{name: "idle", usage: cluster.Usage{CPU: "0", Memory: "1Gi"}}}
	for i, room := range []int{12, 12, 11, 10, 9, 8, 7, 6, 5} {
		millis := 3125 - 100*room
		w := worker{name: fmt.Sprintf("loaded-%d", i+1), usage: cluster.Usage{CPU: fmt.Sprintf("%dm", millis), Memory: "4Gi"}}
		nodes, before[w.name] = append(nodes, w), float64(millis)/8000
	}
	e.workers(nodes...)
	_, err := e.WaitCPUUtilization(e.ctx, cluster.Expectation{Window: window, CPU: before, Tolerance: tolerance / 5, For: settle})
	e.must(err)

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
			// What reads all watchers and counters while they are in use.
			if _, err := e.SchedulerMetrics(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	e.must(group.Wait())
	nodeOf, err := e.WaitBound(e.ctx, burst, pods)
	e.must(err)
	_, err = e.WaitBound(e.ctx, balanced, tiny)
	e.must(err)

	after := map[string]float64{}
	for node, load := range before {
		after[node] = load
	}
	for _, node := range nodeOf {
		after[node] += usage
	}
	trueLoad, err := e.WaitCPUUtilization(e.ctx, cluster.Expectation{Window: measured, CPU: after, Tolerance: tolerance})
	e.must(err)
	t.Logf("true load: %v", trueLoad)
	for over, load := range trueLoad {
		for roomy, other := range trueLoad {
			if load > line+noise && other+usage <= line {
				t.Errorf("%s is at %.1f %%, above the line at %.0f %%, while %s at %.1f %% has room for a pod",
					over, 100*load, 100*line, roomy, 100*other)
			}
		}
	}

	// With the scheduler ends what it has started.
	e.must(e.Scheduler.Stop())
	e.wantNoRace()
}

// wantNoRace checks that the race detector, which is in the scheduler, has found nothing.
func (e environment) wantNoRace() {
	e.t.Helper()
	log, err := e.Scheduler.Log()
	e.must(err)
	if _, report, found := strings.Cut(log, "WARNING: DATA RACE"); found {
		e.t.Errorf("the race detector found:\n%s", report[:min(len(report), 6000)])
	}
}

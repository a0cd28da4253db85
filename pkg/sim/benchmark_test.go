package sim_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// withLoad is the stock profile with the plugins that read load from loads.
const withLoad = `
profiles:
- plugins:
    multiPoint:
      enabled:
      - {name: LoadThreshold}
      - {name: TargetLoadPacking}
      - {name: LoadVariationRiskBalancing}
    score:
      disabled: [{name: NodeResourcesFit}, {name: NodeResourcesBalancedAllocation}]
`

// recommended is the recommended profile.
const recommended = `
profiles:
- plugins:
    multiPoint:
      enabled: [{name: LoadThreshold}, {name: PredictedPeak}]
    score:
      disabled: [{name: NodeResourcesFit}, {name: NodeResourcesBalancedAllocation}]
  pluginConfig:
  - {name: LoadThreshold, args: {statistic: PredictedPeak}}
`

// BenchmarkDecide is one decision that is assumed and forgotten. It is on a sample of the nodes, as in a scheduler by default. Each
// node runs ten pods.
func BenchmarkDecide(b *testing.B) { benchmark(b, (*sim.Scheduler).Decide) }

// BenchmarkExplain is one decision on all nodes, with all reasons and scores.
func BenchmarkExplain(b *testing.B) { benchmark(b, (*sim.Scheduler).Explain) }

func benchmark(b *testing.B, decide func(*sim.Scheduler, context.Context, *corev1.Pod) (*sim.Result, error)) {
	for _, profile := range []struct{ name, yaml string }{{"stock", stock}, {"withLoad", withLoad}, {"recommended", recommended}} {
		for _, nodes := range []int{100, 500, 5000} {
			b.Run(fmt.Sprintf("profile=%s/nodes=%d", profile.name, nodes), func(b *testing.B) {
				s, incoming := populated(b, profile.yaml, nodes), pod("incoming", "100m", "128Mi").Obj()
				ctx := klog.NewContext(b.Context(), logr.Discard())
				used := check.ProcessorTime(b)
				b.ReportAllocs()
				for b.Loop() {
					d := check.Value(decide(s, ctx, incoming))(b)
					check.OK(b, s.Assume(ctx, d))
					check.OK(b, s.Forget(ctx, d))
				}
				b.ReportMetric(float64(b.N)/(check.ProcessorTime(b)-used).Seconds(), "decisions/cpu-s")
			})
		}
	}
}

// populated returns a scheduler of so many nodes, with ten pods on each.
func populated(b *testing.B, yaml string, nodes int) *sim.Scheduler {
	loads, objects := loads{}, []apiruntime.Object(nil)
	for i := range nodes {
		name := fmt.Sprint("node-", i)
		loads[name] = 0.1 + float64(i%50)/100
		objects = append(objects, node(name, "16", "64Gi"))
		for j := range 10 {
			p := pod(fmt.Sprint("pod-", i, "-", j), "500m", "1Gi").Node(name).Phase(corev1.PodRunning).Obj()
			p.Status.StartTime = &metav1.Time{Time: now.Add(-time.Duration(j) * time.Minute)}
			objects = append(objects, p)
		}
	}
	o := loads.plugins()
	o.Objects = objects
	return newScheduler(b, yaml, o)
}

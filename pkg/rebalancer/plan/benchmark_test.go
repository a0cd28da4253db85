package plan

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
)

// stockProfile is the stock scheduler with a load line, and load scores in place of request scores.
const stockProfile = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: s
  plugins:
    multiPoint:
      enabled: [{name: LoadThreshold}, {name: TargetLoadPacking, weight: 5}]
    score:
      disabled: [{name: NodeResourcesFit}, {name: NodeResourcesBalancedAllocation}]
  pluginConfig:
  - {name: LoadThreshold, args: {thresholds: {cpu: 80}}}
`

// BenchmarkMake has 30 pods a node, of workloads of 15. One node in 50 is at 90 %, and the others are from 30 to 69 %.
func BenchmarkMake(b *testing.B) {
	for _, nodes := range []int{100, 5000} {
		b.Run(fmt.Sprint(nodes, " nodes"), func(b *testing.B) {
			f := &fixture{cpu: map[string]float64{}, pods: map[string]*corev1.Pod{}, c: api.Default(), history: &History{}, profile: stockProfile}
			f.c.Refreshes = 1
			for i := range nodes {
				name := fmt.Sprintf("node-%04d", i)
				f.nodes = append(f.nodes, name)
				if f.cpu[name] = 0.3 + float64(i*7%40)/100; i%50 == 0 {
					f.cpu[name] = 0.9
				}
				for j := range 30 {
					f.pod(fmt.Sprint("web-", (i+j*nodes)%(2*nodes)), fmt.Sprintf("pod-%d-%d", i, j), name, fmt.Sprintf("%dm", 20+15*j))
				}
			}
			cluster := f.cluster(b)
			f.look(b, cluster)
			b.ReportAllocs()
			for b.Loop() {
				plan, err := Make(b.Context(), cluster, f.history, f.c)
				if err != nil || len(plan.Moves) == 0 {
					b.Fatalf("error %v, and no moves: %+v", err, plan)
				}
			}
		})
	}
}

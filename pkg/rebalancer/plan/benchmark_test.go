package plan

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
	"github.com/plimsoll-scheduler/plimsoll/test/readingtest"
)

// largeProfile is the stock scheduler with a load line and load scores in the place of request scores.
const largeProfile = `
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

// largeCluster has workloads of 15 replicas. One node in 50 is at 90 %, and the others are from 30 to 69 %.
func largeCluster(b testing.TB, nodes, podsPerNode int) Cluster {
	b.Helper()
	const replicas, namespaces = 15, 1000
	measured, objects := map[string]load.NodeLoad{}, make([]kruntime.Object, 0, nodes*(podsPerNode+1))
	start := metav1.Time{Time: now.Add(-time.Hour)}
	for i := range nodes {
		name := fmt.Sprintf("node-%04d", i)
		objects = append(objects, st.MakeNode().Name(name).Label(corev1.LabelHostname, name).
			Label(corev1.LabelTopologyZone, fmt.Sprint("zone-", i%3)).
			Capacity(map[corev1.ResourceName]string{corev1.ResourceCPU: "16", corev1.ResourceMemory: "64Gi", corev1.ResourcePods: "110"}).Obj())
		cpu := 0.3 + float64(i*7%40)/100
		if i%50 == 0 {
			cpu = 0.9
		}
		known := load.Measurement{Stat: load.Stat{Mean: cpu, Known: true}, End: now}
		measured[name] = load.NodeLoad{load.CPU: known, load.Memory: known}
		for j := range podsPerNode {
			// Neighbors are of different workloads.
			workload := (i + j*nodes) % (nodes * podsPerNode / replicas)
			pod := st.MakePod().Namespace(fmt.Sprint("ns-", workload%namespaces)).Name(fmt.Sprintf("pod-%d-%d", i, j)).
				UID(fmt.Sprintf("pod-%d-%d", i, j)).SchedulerName("s").Node(name).Label("app", fmt.Sprint(workload)).
				Req(map[corev1.ResourceName]string{corev1.ResourceCPU: fmt.Sprintf("%dm", 100+20*j), corev1.ResourceMemory: "1Gi"}).Obj()
			pod.OwnerReferences = []metav1.OwnerReference{{
				Kind: "ReplicaSet", Name: fmt.Sprint("web-", workload), UID: types.UID(fmt.Sprint("w-", workload)), Controller: ptr.To(true),
			}}
			pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &start, Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: start},
				{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: start},
			}, ContainerStatuses: []corev1.ContainerStatus{
				{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: start}}},
			}}
			objects = append(objects, pod)
		}
	}
	loads := readingtest.New(clocktesting.NewFakePassiveClock(now))
	loads.MeasureAll(measured, nil)
	cfg, err := configlint.Decode([]byte(largeProfile))
	if err != nil {
		b.Fatal(err)
	}
	s, err := sim.New(b.Context(), sim.Options{
		Configuration: cfg, Plugins: plugins.NewRegistry(loads, clocktesting.NewFakeClock(now), func(...metrics.Registerable) {}),
		Objects: objects,
	})
	if err != nil {
		b.Fatal(err)
	}
	return Cluster{Scheduler: s, SchedulerNames: []string{"s"}, Load: s.LoadReaders("s")[0], Now: now}
}

// BenchmarkMake reports the processor time of a plan, and the heap with its cluster.
func BenchmarkMake(b *testing.B) {
	for _, nodes := range []int{100, 5000} {
		b.Run(fmt.Sprint(nodes, " nodes"), func(b *testing.B) {
			cluster, c := largeCluster(b, nodes, 30), api.Default()
			history := &History{}
			for refresh := range c.Refreshes {
				looked, err := Look(b.Context(), cluster.Scheduler, cluster.Load, c)
				if err != nil {
					b.Fatal(err)
				}
				for j := range looked {
					looked[j].End = now.Add(time.Duration(refresh) * time.Minute) // the same measurement counts once
				}
				history.Observe(looked, c)
			}
			var plan *Plan
			b.ReportAllocs()
			began := processorTime(b)
			for b.Loop() {
				var err error
				if plan, err = Make(b.Context(), cluster, history, c); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric((processorTime(b)-began).Seconds()/float64(b.N), "cpu-s/op")
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "heap-MiB")
			b.ReportMetric(float64(len(plan.Moves)), "moves")
			b.ReportMetric(float64(plan.Simulated), "simulated")
			runtime.KeepAlive(cluster)
			if len(plan.Moves) == 0 {
				b.Errorf("no moves; stopped: %q, stay: %v", plan.Stopped, plan.Stay)
			}
		})
	}
}

// processorTime is what this process has used of all processors.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

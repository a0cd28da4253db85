package whatif_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/whatif"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// large is the cluster on which the commands must be fast.
const (
	largeNodes = 5000
	largePods  = 50_000
)

// withLoad is the stock profile with the plugins that read load, and the given arguments of PodTopologySpread.
const withLoad = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: plimsoll
  plugins:
    multiPoint:
      enabled:
      - {name: LoadThreshold}
      - {name: TargetLoadPacking}
      - {name: LoadVariationRiskBalancing}
    score:
      disabled: [{name: NodeResourcesFit}, {name: NodeResourcesBalancedAllocation}]
  pluginConfig:
  - {name: PodTopologySpread, args: %s}
`

// Arguments of PodTopologySpread. By default it spreads the pods of each ReplicaSet and Service. For this it reads all pods of the
// cluster at each decision.
const (
	defaultSpreading = "{defaultingType: System}"
	noSpreading      = "{defaultingType: List, defaultConstraints: []}"
)

func largeCluster() ([]apiruntime.Object, map[string]float64) {
	var objects []apiruntime.Object
	cpu := map[string]float64{}
	for i := range largeNodes {
		n := st.MakeNode().Name(fmt.Sprint("node-", i)).
			Label(corev1.LabelHostname, fmt.Sprint("node-", i)).Label(corev1.LabelTopologyZone, fmt.Sprint("zone-", i%3)).
			Capacity(map[corev1.ResourceName]string{"cpu": "16", "memory": "64Gi", "pods": "110"}).Obj()
		objects = append(objects, n)
		cpu[n.Name] = 0.1 + float64(i%50)/100
	}
	for i := range largePods {
		p := st.MakePod().
			Namespace(fmt.Sprint("ns-", i%100)).Name(fmt.Sprint("pod-", i)).UID(fmt.Sprint("pod-", i)).SchedulerName("plimsoll").
			Label("app", fmt.Sprint("app-", i%500)).Req(map[corev1.ResourceName]string{"cpu": "500m", "memory": "1Gi"}).
			Node(fmt.Sprint("node-", i%largeNodes)).Phase(corev1.PodRunning).Obj()
		p.Status.StartTime = &metav1.Time{Time: now.Add(-time.Duration(i%600) * time.Second)}
		objects = append(objects, p)
	}
	return objects, cpu
}

// BenchmarkWhatIf is the work of what-if once the objects are read and the scheduler is filled.
func BenchmarkWhatIf(b *testing.B) {
	const pods = 300
	objects, cpu := largeCluster()
	ctx := klog.NewContext(b.Context(), logr.Discard())
	for _, variant := range []struct{ name, args string }{{"default", defaultSpreading}, {"none", noSpreading}} {
		b.Run("spreading="+variant.name, func(b *testing.B) {
			var elapsed, used time.Duration
			for b.Loop() {
				b.StopTimer()
				s := newScheduler(b, fmt.Sprintf(withLoad, variant.args), cpu, objects)
				p := plan(b, objects, whatif.Scenario{Manifest: deployment(b, "plimsoll"), Replicas: ptr.To(pods)})
				runtime.GC() // frees the garbage of filling the scheduler
				began, before := time.Now(), check.ProcessorTime(b)
				b.StartTimer()
				o := check.Value(p.Run(ctx, s, whatif.RunOptions{Profiles: []string{"plimsoll"}}))(b)
				if o.Placed != pods {
					b.Fatal(o)
				}
				elapsed, used = elapsed+time.Since(began), used+check.ProcessorTime(b)-before
			}
			b.ReportMetric(float64(b.N*pods)/elapsed.Seconds(), "pods/s")
			b.ReportMetric(float64(b.N*pods)/used.Seconds(), "pods/cpu-s")
		})
	}
}

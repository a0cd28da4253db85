package e2e

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
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

func TestTargetLoadPacking_WorkedExampleWithMetricsServer(t *testing.T) {
	e := start(t, cluster.Options{
		MetricsServer: true,
		// metrics-server is the default source.
		Scheduler: configuration("TargetLoadPacking", 1, byLoad, "targetUtilization: 40", "window: 10s", trusted),
	})
	e.workers(exampleWorkers()...)
	admin := check.Value(clientcmd.BuildConfigFromFlags("", e.AdminKubeconfig))(t)
	server := check.Value(metricsclient.NewForConfig(admin))(t)
	e.eventually("metrics-server to measure the load of the nodes", func() bool {
		got := map[string]float64{}
		list, err := server.MetricsV1beta1().NodeMetricses().List(e.ctx, metav1.ListOptions{})
		for i := range list.Items {
			got[list.Items[i].Name] = list.Items[i].Usage.Cpu().AsApproximateFloat64() / 8
		}
		return err == nil && cmp.Equal(exampleLoad(), got, cmpopts.EquateApprox(0, tolerance))
	})
	e.must(e.WaitRefresh(e.ctx))
	for pod, node := range e.place(numbered("example", 5)...) {
		check.Equal(t, pod+": node, which scores 77.5 against 33.3 and 55", "worker-1", node)
	}
}

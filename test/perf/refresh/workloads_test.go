package refresh

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/refresh"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/perf/promstub"
)

// servePods is the environment variable that makes the test binary a server of the usage of so many pods.
const servePods = "PLIMSOLL_PERF_SERVE_PODS"

// podsPerWorkload makes 20,000 workloads of 150,000 pods.
const podsPerWorkload = 7.5

func podName(i int) (workload, replicaSet, pod string) {
	workload = fmt.Sprintf("workload-%05d", int(float64(i)/podsPerWorkload))
	replicaSet = workload + "-6d5f8c7b9d"
	return workload, replicaSet, fmt.Sprintf("%s-%05d", replicaSet, i%100000)
}

func podNamespace(i int) string { return fmt.Sprintf("team-%03d", i/600) }

func newPodServer(pods int) *promstub.Pods {
	named := make([]promstub.Pod, pods)
	for i := range named {
		workload, _, name := podName(i)
		named[i] = promstub.Pod{Namespace: podNamespace(i), Name: name, Workload: workload}
	}
	return promstub.NewPods(named)
}

func newPods(b *testing.B, count int) (nodes, pods cache.Indexer) {
	b.Helper()
	nodes = newNodes(b, count/30).indexer
	names := nodes.ListKeys()
	pods = cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	started := metav1.NewTime(time.Now().Add(-time.Hour))
	for i := range count {
		_, replicaSet, name := podName(i)
		pod := st.MakePod().Namespace(podNamespace(i)).Name(name).Node(names[i%len(names)]).Label("pod-template-hash", "6d5f8c7b9d").
			Req(map[corev1.ResourceName]string{corev1.ResourceCPU: "500m", corev1.ResourceMemory: "1Gi"}).Phase(corev1.PodRunning).Obj()
		controller := true
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: replicaSet, Controller: &controller}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{
			{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}},
		}
		check.OK(b, pods.Add(pod))
	}
	return nodes, pods
}

// BenchmarkWorkloads is one refresh of the statistics of workloads. The first one reads the history of a day too. It reports the
// processor time of this process. What is allocated bounds what a refresh holds.
func BenchmarkWorkloads(b *testing.B) {
	for _, first := range []bool{false, true} {
		for _, count := range []int{15000, 150000, 300000} { // the last has more workloads than are kept
			b.Run(fmt.Sprintf("first=%v/pods=%d", first, count), func(b *testing.B) { benchmarkWorkloads(b, first, count) })
		}
	}
}

func benchmarkWorkloads(b *testing.B, first bool, count int) {
	nodes, pods := newPods(b, count)
	src := check.Value(prometheus.NewPodSource(prometheus.Config{Address: startServer(b, servePods, count),
		Config: httpclient.Config{}}, nil))(b)
	ctx := klog.NewContext(b.Context(), logr.Discard())
	now := clocktesting.NewFakeClock(time.Now()) // a refresh reads the whole history, whatever time that takes
	newWatcher := func() *refresh.WorkloadWatcher {
		return refresh.NewWorkloadWatcher(refresh.WorkloadConfig{
			Source: src, Label: src.Name(), Pods: corelisters.NewPodLister(pods), Nodes: corelisters.NewNodeLister(nodes),
			HasSynced: func() bool { return true }, History: 24 * time.Hour,
			Clock: now, Metrics: refresh.NewMetrics(metrics.NewKubeRegistry()),
		})
	}
	refreshOnce := func(w *refresh.WorkloadWatcher) {
		check.OK(b, w.Refresh(ctx))
		if got, want := w.Publisher().Latest().Len(), min(int(float64(count)/podsPerWorkload), refresh.MaxWorkloads); got != want {
			b.Fatalf("%d workloads, want %d", got, want)
		}
		check.OK(b, w.Outcome().HistoryErr)
	}
	watcher := newWatcher()
	refreshOnce(watcher)
	used := check.ProcessorTime(b)
	b.ReportAllocs()
	for b.Loop() {
		if first {
			watcher = newWatcher()
		}
		refreshOnce(watcher)
	}
	used = check.ProcessorTime(b) - used
	b.ReportMetric(used.Seconds()/float64(b.N), "cpu-s/op")
	runtime.KeepAlive(watcher)
	runtime.KeepAlive(nodes)
	runtime.KeepAlive(pods)
}

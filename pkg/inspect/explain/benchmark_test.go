package explain_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/explain"
)

// benchmarkCluster has 5,000 nodes that run 50,000 pods.
func benchmarkCluster() (l loads, objects []runtime.Object) {
	l = loads{}
	for i := range 5000 {
		name := fmt.Sprint("node-", i)
		l[name] = 0.1 + float64(i%50)/100
		objects = append(objects, node(name, "16"))
	}
	for i := range 5000 {
		for j := range 10 {
			objects = append(objects, running(pod(fmt.Sprint("pod-", i, "-", j), "500m", "1Gi"), fmt.Sprint("node-", i)))
		}
	}
	return l, objects
}

// BenchmarkExplain explains a pod as a new process does. The time includes the scheduler's first reading of all nodes and pods.
func BenchmarkExplain(b *testing.B) {
	l, objects := benchmarkCluster()
	p := pod("p", "200m", "1Gi").Obj()
	used := processorTime(b)
	b.ReportAllocs()
	for b.Loop() {
		explained(b, newScheduler(b, byLoad, l, objects...), explain.Options{Pod: p, Top: 5})
	}
	b.ReportMetric((processorTime(b)-used).Seconds()/float64(b.N), "cpu-s/op")
}

// BenchmarkExplain_Kept explains a running pod as the page does.
func BenchmarkExplain_Kept(b *testing.B) {
	l, objects := benchmarkCluster()
	s, p := newScheduler(b, byLoad, l, objects...), objects[len(objects)-1].(*corev1.Pod)
	used := processorTime(b)
	b.ReportAllocs()
	for b.Loop() {
		must(b, s.Try(nil, p, func() error {
			explained(b, s, explain.Options{Pod: p, InCluster: true, Top: 5})
			return nil
		}))
	}
	b.ReportMetric((processorTime(b)-used).Seconds()/float64(b.N), "cpu-s/op")
}

// processorTime is what this process has used of all processors.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var r syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &r))
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

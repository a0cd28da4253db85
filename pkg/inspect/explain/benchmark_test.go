package explain_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/explain"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
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
	used := check.ProcessorTime(b)
	b.ReportAllocs()
	for b.Loop() {
		explained(b, newScheduler(b, byLoad, l, objects...), explain.Options{Pod: p, Top: 5})
	}
	b.ReportMetric((check.ProcessorTime(b)-used).Seconds()/float64(b.N), "cpu-s/op")
}

// BenchmarkExplain_Kept explains a running pod as the page does.
func BenchmarkExplain_Kept(b *testing.B) {
	l, objects := benchmarkCluster()
	s, p := newScheduler(b, byLoad, l, objects...), objects[len(objects)-1].(*corev1.Pod)
	used := check.ProcessorTime(b)
	b.ReportAllocs()
	for b.Loop() {
		check.OK(b, s.Try(nil, p, func() error {
			explained(b, s, explain.Options{Pod: p, InCluster: true, Top: 5})
			return nil
		}))
	}
	b.ReportMetric((check.ProcessorTime(b)-used).Seconds()/float64(b.N), "cpu-s/op")
}

package top

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// BenchmarkNodes is one look at 5,000 nodes with 50,000 pods, of which one was changed since the last.
func BenchmarkNodes(b *testing.B) {
	const nodes, podsPerNode = 5000, 10
	measured, objects := loads{}, []runtime.Object(nil)
	for i := range nodes {
		name := fmt.Sprint("node-", i)
		measured[name] = load.NodeLoad{load.CPU: measurement(float64(i%100)/100, 0), load.Memory: measurement(0.5, 0)}
		objects = append(objects, node(name))
		for j := range podsPerNode {
			objects = append(objects, pod(fmt.Sprint("pod-", i, "-", j), name, "100m", "100Mi", time.Duration(j)*time.Minute))
		}
	}
	r := check.Value(newReader(b, byThreshold, measured, Options{}, objects...))(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		check.OK(b, r.scheduler.Update(pod("pod-0-0", "node-0", "100m", "100Mi", time.Duration(i)*time.Second)))
		nodesOf(b, r, Selection{})
	}
}

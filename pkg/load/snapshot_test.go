package load

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
)

func TestAnIndexFindsEachNodeWhateverTheirGenerations(t *testing.T) {
	const count = 20
	var names []string
	var infos []*framework.NodeInfo
	for i := range count {
		names = append(names, fmt.Sprint("n", i))
		info := framework.NewNodeInfo()
		info.SetNode(st.MakeNode().Name(names[i]).Obj())
		infos = append(infos, info)
	}
	stranger := framework.NewNodeInfo()
	stranger.SetNode(st.MakeNode().Name("stranger").Obj())
	index := NewIndex(names)
	for _, tc := range []struct {
		name       string
		generation func(i int) int64
	}{
		{"generations follow one another", func(i int) int64 { return int64(1 + i) }},
		{"all generations share two words", func(i int) int64 { return int64(1+i) << 20 }},
		{"generations are large", func(i int) int64 { return 1<<40 - int64(1+i)<<20 }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for i, info := range infos {
				info.Generation = tc.generation(i)
			}
			stranger.Generation = tc.generation(count)
			for range 3 {
				for i, info := range infos {
					if row, ok := index.row(info); row != i || !ok {
						t.Fatalf("node %d has row %d, %v", i, row, ok)
					}
				}
				if row, ok := index.row(stranger); ok {
					t.Fatalf("a node that is not in the index has row %d", row)
				}
			}
		})
	}
}

func TestAnIndexOfNoNodesFindsNone(t *testing.T) {
	info := framework.NewNodeInfo()
	info.SetNode(st.MakeNode().Name("n").Obj())
	if row, ok := NewIndex(nil).row(info); ok {
		t.Errorf("row %d", row)
	}
}

func TestAnIndexLooksUpANameOnceWhileANodeDoesNotChange(t *testing.T) {
	names := []string{"a", "b"}
	index := NewIndex(names)
	var infos []*framework.NodeInfo
	for i, name := range names {
		info := framework.NewNodeInfo()
		info.SetNode(st.MakeNode().Name(name).Obj())
		info.Generation = int64(1+i) << 20 // both share their words
		infos = append(infos, info)
		index.row(info)
	}
	for want, info := range infos {
		if row, ok := index.row(nameless{info}); row != want || !ok {
			t.Errorf("row %d, %v, want %d", row, ok, want)
		}
	}
}

// nameless is a NodeInfo that panics when it is asked for its Node object.
type nameless struct{ fwk.NodeInfo }

func (nameless) Node() *corev1.Node { panic("the node is looked up by name again") }

func TestMetricsHaveTheIndexOfTheLoadWhereThatHasTheirNodes(t *testing.T) {
	loads := TableOf(map[string]NodeLoad{"a": {}, "b": {}})
	values := func(nodes ...string) MetricTable {
		table := MetricTable{}
		for _, node := range nodes {
			table[node] = MetricReading{Value: 1, End: now}
		}
		return table
	}
	for _, tc := range []struct {
		name    string
		metrics map[string]MetricTable
		shared  bool
	}{
		{"no metrics", nil, true},
		{"the same nodes", map[string]MetricTable{"x": values("a", "b")}, true},
		{"less nodes", map[string]MetricTable{"x": values("b")}, true},
		{"a node without load", map[string]MetricTable{"x": values("a", "b"), "y": values("c")}, false},
	} {
		snapshot := NewSnapshot(map[time.Duration]*Table{window: loads}).WithMetrics(tc.metrics)
		if got := snapshot.columns.index == loads.index; got != tc.shared {
			t.Errorf("%s: the index is shared: %v, want %v", tc.name, got, tc.shared)
		}
		view := MetricsView{columns: snapshot.columns}
		for metric, table := range tc.metrics {
			for _, node := range []string{"a", "b", "c"} {
				_, want := table[node]
				if _, known := view.Values(metric).At(view.RowOf(node)); known != want {
					t.Errorf("%s: %s of %s is known: %v, want %v", tc.name, metric, node, known, want)
				}
			}
		}
	}
}

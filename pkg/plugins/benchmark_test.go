package plugins_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/loadthreshold"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/nodemetrics"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/plugintest"
)

// sizes are the numbers of nodes that everything is measured at.
var sizes = []int{500, 5000, 15000}

// bench runs fn for each plugin on clusters of each size, in which each node has that many recent pods.
func bench(
	b *testing.B, names []string, podsPerNode int, suffix string,
	fn func(b *testing.B, name string, p *plugintest.Loads, nodes []fwk.NodeInfo),
) {
	for _, size := range sizes {
		p, nodes := cluster(size, podsPerNode)
		for _, name := range names {
			b.Run(fmt.Sprintf("%s/nodes=%d%s", name, size, suffix), func(b *testing.B) {
				b.ReportAllocs()
				fn(b, name, p, nodes)
			})
		}
	}
}

// incoming is the pod that is being placed.
func incoming() *corev1.Pod {
	return st.MakePod().Namespace("ns").Name("p").UID("p").Req(plugintest.CPUAndMemory("1", "1Gi")).Obj()
}

// perNode reports the share of one node in a cycle over count nodes.
func perNode(b *testing.B, count int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(count), "ns/node")
}

var (
	limits = slices.Sorted(maps.Keys(limiters()))
	byLoad = slices.Sorted(maps.Keys(scorers()))
)

// refusing are arguments by which each node is ruled out, for plugins that filter.
func refusing(name string) string {
	switch name {
	case loadthreshold.Name:
		return "thresholds: {cpu: 1}"
	case nodemetrics.Name:
		return `metricProvider: {type: Prometheus, address: "http://prometheus"}
metrics: [{name: m0, query: m0, prefer: Lower, reject: ">= 0"}]`
	}
	return ""
}

// BenchmarkFilter is the cost of one call for one node that passes, each cycle going over all of them.
func BenchmarkFilter(b *testing.B) {
	bench(b, limits, 20, "", func(b *testing.B, name string, p *plugintest.Loads, nodes []fwk.NodeInfo) {
		benchmarkFilter(b, build(b, p, name, ""), nodes)
	})
}

// BenchmarkFilterByPeak is BenchmarkFilter of the recommended LoadThreshold.
func BenchmarkFilterByPeak(b *testing.B) {
	bench(b, []string{loadthreshold.Name}, 20, "", func(b *testing.B, name string, p *plugintest.Loads, nodes []fwk.NodeInfo) {
		benchmarkFilter(b, build(b, p, name, "statistic: PredictedPeak"), nodes)
	})
}

// BenchmarkFilterRefuses is the cost of one call for one node that is ruled out.
func BenchmarkFilterRefuses(b *testing.B) {
	bench(b, limits, 20, "", func(b *testing.B, name string, p *plugintest.Loads, nodes []fwk.NodeInfo) {
		benchmarkFilter(b, build(b, p, name, refusing(name)), nodes)
	})
}

func benchmarkFilter(b *testing.B, pl minor.Plugin, nodes []fwk.NodeInfo) {
	pod, i := incoming(), 0
	var state fwk.CycleState
	next := func() {
		if i == 0 {
			state = framework.NewCycleState()
			pl.(minor.PreFilterPlugin).PreFilter(b.Context(), state, pod, nil)
		}
		pl.(minor.FilterPlugin).Filter(b.Context(), state, pod, nodes[i])
		i = (i + 1) % len(nodes)
	}
	for range nodes {
		next() // the first cycle after a refresh has a benchmark of its own
	}
	for b.Loop() {
		next()
	}
}

// BenchmarkPostFilter is the cost of one cycle's call where every node is ruled out, and the limit is waived.
func BenchmarkPostFilter(b *testing.B) {
	bench(b, limits, 0, "", func(b *testing.B, name string, p *plugintest.Loads, nodes []fwk.NodeInfo) {
		var objects []*corev1.Node
		for _, node := range nodes {
			objects = append(objects, node.Node())
		}
		handle := plugintest.NewHandle(objects...)
		handle.Passes = func(fwk.CycleState, *corev1.Pod, fwk.NodeInfo) bool { return true }
		pl, pod, state := buildOn(b, handle, p, name, refusing(name)), incoming(), framework.NewCycleState()
		pl.(minor.PreFilterPlugin).PreFilter(b.Context(), state, pod, nil)
		statuses := framework.NewDefaultNodeToStatus()
		for _, node := range nodes {
			statuses.Set(node.Node().Name, pl.(minor.FilterPlugin).Filter(b.Context(), state, pod, node).WithPlugin(name))
		}
		for b.Loop() {
			if _, status := pl.(minor.PostFilterPlugin).PostFilter(b.Context(), state, pod, statuses); !status.IsSuccess() {
				b.Fatal(status)
			}
			<-handle.Activated
		}
	})
}

// BenchmarkScore is the cost of one call for one node, each cycle going over all of them. Where the node just changed, one
// pod has come or gone on each since the cycle before.
func BenchmarkScore(b *testing.B) {
	for _, podsPerNode := range []int{0, 20} {
		suffix := fmt.Sprintf("/%d_recent_pods_per_node", podsPerNode)
		bench(b, byLoad, podsPerNode, suffix, func(b *testing.B, name string, p *plugintest.Loads, nodes []fwk.NodeInfo) {
			benchmarkScore(b, build(b, p, name, ""), func() []fwk.NodeInfo { return nodes })
		})
	}
	const changing = "/20_recent_pods_per_node,_node_just_changed"
	bench(b, byLoad, 20, changing, func(b *testing.B, name string, p *plugintest.Loads, nodes []fwk.NodeInfo) {
		added := check.Value(framework.NewPodInfo(incoming()))(b)
		changed, odd := make([]fwk.NodeInfo, len(nodes)), false
		benchmarkScore(b, build(b, p, name, ""), func() []fwk.NodeInfo {
			odd = !odd
			for i, node := range nodes {
				changed[i] = node.Snapshot()
				changed[i].SetNode(node.Node()) // a generation of its own, also where there was one before
				if odd {
					changed[i].AddPodInfo(added)
				}
			}
			return changed
		})
	})
}

// benchmarkScore scores the nodes that next returns for each cycle.
func benchmarkScore(b *testing.B, pl minor.ScorePlugin, next func() []fwk.NodeInfo) {
	pod, state, nodes := incoming(), framework.NewCycleState(), next()
	for _, node := range nodes {
		pl.Score(b.Context(), state, pod, node) // the first cycle after a refresh has a benchmark of its own
	}
	i := len(nodes)
	for b.Loop() {
		if i == len(nodes) {
			b.StopTimer()
			i, state, nodes = 0, framework.NewCycleState(), next()
			b.StartTimer()
		}
		pl.Score(b.Context(), state, pod, nodes[i])
		i++
	}
}

// BenchmarkScoreAfterRefresh is the cost of the first cycle after new load has been published, over all nodes.
func BenchmarkScoreAfterRefresh(b *testing.B) {
	bench(b, byLoad, 20, "/20_recent_pods_per_node", func(b *testing.B, name string, p *plugintest.Loads, nodes []fwk.NodeInfo) {
		names := make([]string, len(nodes))
		for i, node := range nodes {
			names[i] = node.Node().Name
		}
		index := load.NewIndex(names)
		measured := load.NodeLoad{load.CPU: plugintest.Measurement(0.25, 0.1), load.Memory: plugintest.Measurement(0.25, 0.1)}
		next := func() *load.Snapshot {
			return load.NewSnapshot(index, map[time.Duration]*load.Table{
				plugintest.Window: load.NewTable(index, func(string) load.NodeLoad { return measured }),
			}, nil)
		}
		pl, pod := build(b, p, name, ""), incoming()
		decide := func() {
			state := framework.NewCycleState()
			for _, node := range nodes {
				pl.Score(b.Context(), state, pod, node)
			}
		}
		p.Publish(next())
		decide()
		for b.Loop() {
			b.StopTimer()
			p.Publish(next())
			b.StartTimer()
			decide()
		}
		perNode(b, len(nodes))
	})
}

// BenchmarkScoreAndNormalize is the cost of scoring in one cycle over all nodes, where scores follow from all candidates.
func BenchmarkScoreAndNormalize(b *testing.B) {
	bench(b, []string{nodemetrics.Name}, 0, "", func(b *testing.B, name string, p *plugintest.Loads, nodes []fwk.NodeInfo) {
		pl, pod, scores := build(b, p, name, ""), incoming(), make(minor.NodeScoreList, len(nodes))
		for b.Loop() {
			state := framework.NewCycleState()
			pl.(minor.PreScorePlugin).PreScore(b.Context(), state, pod, nodes)
			for i, node := range nodes {
				scores[i].Name = node.Node().Name
				scores[i].Score, _ = pl.Score(b.Context(), state, pod, node)
			}
			pl.ScoreExtensions().NormalizeScore(b.Context(), state, pod, scores)
		}
		perNode(b, len(nodes))
	})
}

package whatif

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

// loadLines returns the loads and lines of all nodes, by name, as reader sees them; nil if reader is nil.
func loadLines(ctx context.Context, s *sim.Scheduler, reader explain.LoadReader) (map[string]explain.LoadLine, error) {
	if reader == nil {
		return nil, nil
	}
	nodes, err := s.NodeInfos(ctx)
	if err != nil {
		return nil, err
	}
	state, lines := framework.NewCycleState(), make(map[string]explain.LoadLine, len(nodes))
	for _, node := range nodes {
		lines[node.Node().Name] = reader.LoadLine(state, node)
	}
	return lines, nil
}

// publishChanged publishes the load without the usage of evicted pods. New nodes have the newest measurement, but idle. It changes
// nothing for a source without measurements.
func (p *Plan) publishChanged(publisher *load.Publisher, evicted *sim.LeavingUsage) {
	measured := publisher.Latest()
	if measured.Index().Len() == 0 || len(p.newNodes) == 0 && !p.Evicts() {
		return
	}
	var added []string
	for _, object := range p.added {
		if node, ok := object.(*corev1.Node); ok {
			added = append(added, node.Name)
		}
	}
	newest := map[load.Quantile]load.NodeLoad{}
	publisher.Publish(measured.With(added, func(statistic load.Quantile, node string, l load.NodeLoad) load.NodeLoad {
		if p.newNodes[node] {
			return idle(newestOf(newest, measured, statistic))
		}
		return evicted.Subtract(publisher, statistic, node, l)
	}))
}

// newestOf returns each resource's newest measurement on any node, of a quantile or, with Fraction 0, of the mean. It caches it.
func newestOf(cache map[load.Quantile]load.NodeLoad, s *load.Snapshot, statistic load.Quantile) load.NodeLoad {
	newest, ok := cache[statistic]
	if ok {
		return newest
	}
	table := s.Table(statistic)
	for row := range table.Index().Len() {
		for r, m := range table.Row(row) {
			if m.Known && (!newest[r].Known || m.End.After(newest[r].End)) {
				newest[r] = m
			}
		}
	}
	cache[statistic] = newest
	return newest
}

// idle returns l with a usage of 0.
func idle(l load.NodeLoad) load.NodeLoad {
	for r := range l {
		l[r].Mean, l[r].StdDev, l[r].Drift = 0, 0, 0
	}
	return l
}

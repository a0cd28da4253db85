package whatif

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/unload"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

// loadLines returns how all nodes stand against the load line of r, by name; nil if r is nil.
func loadLines(ctx context.Context, s *sim.Scheduler, r explain.LoadReader) (map[string]explain.LoadLine, error) {
	if r == nil {
		return nil, nil
	}
	nodes, err := s.NodeInfos(ctx)
	if err != nil {
		return nil, err
	}
	state, lines := framework.NewCycleState(), make(map[string]explain.LoadLine, len(nodes))
	for _, node := range nodes {
		lines[node.Node().Name] = r.LoadLine(state, node)
	}
	return lines, nil
}

// publishChanged publishes the load without the usage of evicted pods, and with new nodes measured as idle. A source that has
// measured nothing stays so.
func (p *Plan) publishChanged(publisher *load.Publisher, evicted *unload.Usage) {
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
	newest := map[load.Quantile]load.NodeLoad{} // the newest measurement of any node
	publisher.Publish(measured.With(added, func(of load.Quantile, node string, l load.NodeLoad) load.NodeLoad {
		if p.newNodes[node] {
			return idle(newestOf(newest, measured, of))
		}
		return evicted.Subtract(publisher, of, node, l)
	}))
}

// newestOf returns the newest measurement of each resource, of a quantile or, at a Fraction of 0, of the mean. It keeps
// it in known.
func newestOf(known map[load.Quantile]load.NodeLoad, s *load.Snapshot, of load.Quantile) load.NodeLoad {
	newest, ok := known[of]
	if ok {
		return newest
	}
	table := s.Over(of.Window)
	if of.Fraction > 0 {
		table = s.Quantile(of)
	}
	for row := range table.Index().Len() {
		for r, m := range table.Row(row) {
			if m.Known && (!newest[r].Known || m.End.After(newest[r].End)) {
				newest[r] = m
			}
		}
	}
	known[of] = newest
	return newest
}

// idle returns the measurement of a node that uses nothing, at the time and over the window of l.
func idle(l load.NodeLoad) load.NodeLoad {
	for r := range l {
		l[r].Mean, l[r].StdDev, l[r].Drift = 0, 0, 0
	}
	return l
}

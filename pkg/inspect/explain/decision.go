package explain

import (
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

// decide says which of the ranked nodes the scheduler takes, and which plugins decided that.
func decide(ranked []sim.NodeResult) (d Decision) {
	if len(ranked) == 0 {
		return Decision{}
	}
	scores := make([]minor.NodePluginScores, len(ranked))
	for i, n := range ranked {
		scores[i] = minor.NodePluginScores{Name: n.Name, TotalScore: n.Total}
		for _, s := range n.Scores {
			scores[i].Scores = append(scores[i].Scores, minor.PluginScore{Name: s.Plugin, Score: s.Weighted})
		}
	}
	names := func(nodes []int) (names []string) {
		for _, i := range nodes {
			names = append(names, ranked[i].Name)
		}
		return names
	}
	d.Total, d.Nodes = ranked[0].Total, names(explain.Winners(scores))
	if len(ranked) > len(d.Nodes) {
		next := &ranked[len(d.Nodes)]
		d.RunnerUp, d.Lead = next.Name, d.Total-next.Total
	}
	for i, s := range ranked[0].Scores {
		best, others := explain.Without(scores, i)
		switch {
		case others == nil:
		case len(others) == len(best):
			d.Deciding = append(d.Deciding, Deciding{Plugin: s.Plugin, NodesWithout: names(others)})
		default:
			d.BreaksTie = append(d.BreaksTie, Deciding{Plugin: s.Plugin, NodesWithout: names(others)})
		}
	}
	return d
}

// nominate chooses the node of an earlier preemption, which the scheduler tries first.
func (d *Decision) nominate(node string, ranked []sim.NodeResult) {
	if n := find(ranked, node); n != nil {
		*d = Decision{Nodes: []string{node}, Total: n.Total, Nominated: true}
	}
}

package explain

import (
	"slices"

	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

// decide says which of the ranked nodes the scheduler takes, and which plugins decided that.
func decide(ranked []sim.NodeResult) (d Decision) {
	if len(ranked) == 0 {
		return Decision{}
	}
	d.Total = ranked[0].Total
	d.Nodes = winners(ranked, "")
	if len(ranked) > len(d.Nodes) {
		next := &ranked[len(d.Nodes)]
		d.RunnerUp, d.Lead = next.Name, d.Total-next.Total
	}
	for _, s := range ranked[0].Scores {
		without := winners(ranked, s.Plugin)
		others := slices.DeleteFunc(slices.Clone(without), func(name string) bool { return slices.Contains(d.Nodes, name) })
		switch {
		case len(others) == 0:
		case len(others) == len(without):
			d.Deciding = append(d.Deciding, Deciding{Plugin: s.Plugin, NodesWithout: others})
		default:
			d.BreaksTie = append(d.BreaksTie, Deciding{Plugin: s.Plugin, NodesWithout: others})
		}
	}
	return d
}

// winners returns the nodes with the highest total without the plugin's score, in the order of ranked. No plugin has an empty name.
func winners(ranked []sim.NodeResult, without string) (best []string) {
	var highest int64
	for i := range ranked {
		total := ranked[i].Total
		for _, s := range ranked[i].Scores {
			if s.Plugin == without {
				total -= s.Weighted
			}
		}
		if len(best) > 0 && total < highest {
			continue
		}
		if total > highest || len(best) == 0 {
			best, highest = nil, total
		}
		best = append(best, ranked[i].Name)
	}
	return best
}

// nominate chooses the node of an earlier preemption, which the scheduler tries first.
func (d *Decision) nominate(node string, ranked []sim.NodeResult) {
	if n := find(ranked, node); n != nil {
		*d = Decision{Nodes: []string{node}, Total: n.Total, Nominated: true}
	}
}

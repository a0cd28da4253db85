package hosted

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

// Table collects the load of nodes over windows in one refresh. It is not safe for concurrent use.
type Table struct {
	nodes     []*corev1.Node
	positions map[*corev1.Node]int
	index     *source.NodeIndex
	suffix    string
	excerpt   func(string) string
	// stats are by window and position of the node.
	stats map[time.Duration][][load.ResourceCount]measured
	// By resource, known counts the values of nodes, series the series, and matched those of nodes.
	known, series, matched [load.ResourceCount]int
	// hostless counts, by resource, the series without a host.
	hostless  [load.ResourceCount]int
	unmatched map[string]struct{}
}

type measured struct {
	stat load.Stat
	end  time.Time
	// exact reports whether the host is the node's name, without the suffix.
	exact bool
}

// NewTable returns an empty table for load of the nodes. suffix follows the names of nodes in hosts. excerpt cleans a text.
func NewTable(nodes []*corev1.Node, suffix string, excerpt func(string) string) *Table {
	t := &Table{
		nodes:     nodes,
		positions: make(map[*corev1.Node]int, len(nodes)),
		index:     source.NewNodeIndex(nodes),
		suffix:    suffix,
		excerpt:   excerpt,
		stats:     map[time.Duration][][load.ResourceCount]measured{},
		unmatched: map[string]struct{}{},
	}
	for i, node := range nodes {
		t.positions[node] = i
	}
	return t
}

// Offer adds a host's series, in fractions of capacity, for the windows of the range.
// Of several series of a node, one with the node's name as host counts, then the greatest mean. Expired series do not count.
func (t *Table) Offer(host string, r load.Resource, rng Range, now time.Time, series Series) {
	t.series[r]++
	node, exact := t.match(host)
	if node == nil {
		t.addUnmatched(host)
		return
	}
	t.matched[r]++
	if len(series.stats) == 0 || series.newest.Before(rng.oldest(now)) {
		return
	}
	position := t.positions[node]
	for i, window := range rng.Windows {
		if t.stats[window] == nil {
			t.stats[window] = make([][load.ResourceCount]measured, len(t.nodes))
		}
		m := measured{stat: series.stats[i], end: series.newest, exact: exact}
		old := &t.stats[window][position][r]
		if !old.stat.Known {
			t.known[r]++
		}
		if !old.stat.Known || m.exact && !old.exact || m.exact == old.exact && m.stat.Mean > old.stat.Mean {
			*old = m
		}
	}
}

// OfferHostless counts a series without a host. id is the service's name of it.
func (t *Table) OfferHostless(id string, r load.Resource) {
	t.series[r]++
	t.hostless[r]++
	t.addUnmatched("series " + id + " without a host")
}

func (t *Table) addUnmatched(host string) {
	if len(t.unmatched) < source.MaxUnmatched {
		t.unmatched[t.excerpt(host)] = struct{}{}
	}
}

// match returns the host's node, or nil, and whether the host has its name.
func (t *Table) match(host string) (node *corev1.Node, exact bool) {
	short := host
	if cut := len(host) - len(t.suffix); cut > 0 && strings.EqualFold(host[cut:], t.suffix) {
		short = host[:cut]
	}
	for _, name := range []string{host, short} {
		if node, ok := t.index.Match(name); ok {
			return node, name == node.Name
		}
	}
	return nil, false
}

// Measured reports whether a node has a value of the resource.
func (t *Table) Measured(r load.Resource) bool { return t.known[r] > 0 }

// Samples returns the load over the windows: one sample a node and window.
// If the newest points of the resources differ in time, there is one a resource.
func (t *Table) Samples(windows []time.Duration) []load.Sample {
	samples := make([]load.Sample, 0, len(windows)*len(t.nodes))
	for _, window := range slices.Compact(slices.Sorted(slices.Values(windows))) {
		for i, resources := range t.stats[window] {
			first := len(samples)
			for r, m := range resources {
				if !m.stat.Known {
					continue
				}
				if len(samples) == first || !samples[first].End.Equal(m.end) {
					samples = append(samples, load.Sample{Node: t.nodes[i].Name, Window: window, End: m.end})
				}
				samples[len(samples)-1].Stats[r] = m.stat
			}
		}
	}
	return samples
}

// Unmatched returns the hosts without a node, sorted, up to source.MaxUnmatched.
func (t *Table) Unmatched() []string { return slices.Sorted(maps.Keys(t.unmatched)) }

// Emptiness returns why no node has a value although the service returned series; nil if it returned none.
// advice says how series get a host.
func (t *Table) Emptiness(r load.Resource, advice string) error {
	switch {
	case t.series[r] == 0:
		return nil
	case t.hostless[r] == t.series[r]:
		return fmt.Errorf("none of %d series has a host: %s", t.series[r], advice)
	case t.matched[r] == 0:
		return fmt.Errorf("none of %d series belongs to a Node: %s: set hostNameSuffix, or clusterName to the cluster's name there",
			t.series[r], text.FirstN(t.Unmatched()))
	}
	return fmt.Errorf("none of the %d series of Nodes has a recent point: check the Nodes' agent and clocks", t.matched[r])
}

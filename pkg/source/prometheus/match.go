package prometheus

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

// matcher finds the Nodes that series belong to. It does not change.
type matcher struct {
	nodes     []*corev1.Node
	positions map[*corev1.Node]int
	index     *source.NodeIndex
	// labels are the labels that may name a node, the preferred one first.
	labels []string
	// excerpt makes a text of the server one that may be shown.
	excerpt func(string) string
}

func newMatcher(nodes []*corev1.Node, labels []string, excerpt func(string) string) *matcher {
	m := &matcher{
		nodes: nodes, positions: make(map[*corev1.Node]int, len(nodes)), index: source.NewNodeIndex(nodes), labels: labels,
		excerpt: excerpt,
	}
	for i, node := range nodes {
		m.positions[node] = i
	}
	return m
}

// match returns the position among the nodes of the one that a series belongs to, and the rank among the labels of the one that
// names it.
func (m *matcher) match(series map[string]string) (position, rank int, ok bool) {
	for rank, label := range m.labels {
		value, present := series[label]
		if !present {
			continue
		}
		if node, ok := m.index.Match(value); ok {
			return m.positions[node], rank, true
		}
	}
	return 0, 0, false
}

// describe writes those labels of a series that may name a node, as they may be shown.
func (m *matcher) describe(series map[string]string) string {
	var b strings.Builder
	for _, label := range m.labels {
		if value, ok := series[label]; ok {
			if b.Len() > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, "%s=%q", label, m.excerpt(value))
		}
	}
	return text.Excerpt("{" + b.String() + "}")
}

// capacity returns the cores or the bytes of the node at a position. It is the capacity and not the allocatable, for usage
// includes that of the system.
func (m *matcher) capacity(position int, r load.Resource) float64 {
	capacity := m.nodes[position].Status.Capacity
	if r == load.CPU {
		return capacity.Cpu().AsApproximateFloat64()
	}
	return capacity.Memory().AsApproximateFloat64()
}

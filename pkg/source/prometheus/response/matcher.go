package response

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

// Matcher finds the Nodes that series belong to. It does not change.
type Matcher struct {
	Nodes []*corev1.Node
	Index *source.NodeIndex
	// labels are the labels that may name a node, the preferred one first.
	labels []string
	// excerpt cleans a server's text.
	excerpt func(string) string
}

// NewMatcher returns a Matcher by labels, the preferred one first. excerpt cleans a server's text.
func NewMatcher(nodes []*corev1.Node, labels []string, excerpt func(string) string) *Matcher {
	return &Matcher{Nodes: nodes, Index: source.NewNodeIndex(nodes), labels: labels, excerpt: excerpt}
}

// Match returns the position of the series' Node, and the rank among the labels of the one that names it.
func (m *Matcher) Match(series map[string]string) (position, rank int, ok bool) {
	for rank, label := range m.labels {
		value, present := series[label]
		if !present {
			continue
		}
		if position, ok := m.Index.Match(value); ok {
			return position, rank, true
		}
	}
	return 0, 0, false
}

func (m *Matcher) describe(series map[string]string) string {
	return m.write("", series, m.labels)
}

// DescribeAll writes a series with all of its labels.
func (m *Matcher) DescribeAll(series map[string]string) string {
	names := slices.Sorted(maps.Keys(series))
	names = slices.DeleteFunc(names, func(name string) bool { return name == model.MetricNameLabel })
	return m.write(m.excerpt(series[model.MetricNameLabel]), series, names)
}

func (m *Matcher) write(name string, series map[string]string, labels []string) string {
	var parts []string
	for _, label := range labels {
		if value, ok := series[label]; ok {
			parts = append(parts, fmt.Sprintf("%s=%q", m.excerpt(label), m.excerpt(value)))
		}
	}
	return text.Excerpt(name + "{" + strings.Join(parts, ", ") + "}")
}

// capacity returns the cores or bytes of the node at a position. Usage includes the system's: allocatable would be too little.
func (m *Matcher) capacity(position int, r load.Resource) float64 {
	capacity := m.Nodes[position].Status.Capacity
	if r == load.CPU {
		return capacity.Cpu().AsApproximateFloat64()
	}
	return capacity.Memory().AsApproximateFloat64()
}

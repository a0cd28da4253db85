package engine

import (
	"context"
	"math"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

// measured is what a source measures of the simulated nodes: their usage in each tick, at most their capacity. It implements
// source.Source and refresh.Nodes.
type measured struct {
	names []string
	// start is the moment at which the first tick begins.
	start time.Time
	// ticks is how many ticks have been measured.
	ticks int
	// last holds the last keptTicks utilizations as fractions of capacity, by node, at the number of the tick modulo keptTicks.
	last [][load.ResourceCount][keptTicks]float32
}

// keptTicks are those of the longest window that plugins accept.
const keptTicks = int(time.Hour / input.Tick)

func newMeasured(in *input.Input) *measured {
	m := &measured{start: in.Start, last: make([][load.ResourceCount][keptTicks]float32, len(in.Nodes))}
	for i := range in.Nodes {
		m.names = append(m.names, in.Nodes[i].Name)
	}
	return m
}

// add adds a node's utilization during the tick that follows those measured. Call next after all nodes.
func (m *measured) add(node int, utilization podusage.Amounts) {
	for r, u := range utilization {
		m.last[node][r][m.ticks%keptTicks] = float32(min(u, 1))
	}
}

func (m *measured) next() { m.ticks++ }

// Name implements source.Source.
func (m *measured) Name() string { return "Replay" }

// Fetch implements source.Source.
func (m *measured) Fetch(_ context.Context, request source.Request) (source.Batch, error) {
	batch := source.Batch{Samples: make([]load.Sample, 0, len(m.names)*len(request.Windows))}
	if m.ticks == 0 {
		return batch, nil
	}
	end := m.start.Add(time.Duration(m.ticks) * input.Tick)
	for i, name := range m.names {
		for _, window := range request.Windows {
			sample := load.Sample{Node: name, Window: window, End: end}
			for r := range load.ResourceCount {
				sample.Stats[r] = m.over(i, r, window)
			}
			batch.Samples = append(batch.Samples, sample)
		}
	}
	return batch, nil
}

// over returns the statistics of the last ticks of the node.
func (m *measured) over(node int, r load.Resource, window time.Duration) load.Stat {
	n := min(input.Ticks(window), m.ticks, keptTicks)
	sum, squares := 0.0, 0.0
	for tick := m.ticks - n; tick < m.ticks; tick++ {
		u := float64(m.last[node][r][tick%keptTicks])
		sum += u
		squares += u * u
	}
	mean := sum / float64(n)
	stat := load.Stat{Mean: mean, StdDev: math.Sqrt(max(squares/float64(n)-mean*mean, 0)), Known: true}
	if span := time.Duration(n) * input.Tick; span < window {
		stat.Span = span
	}
	return stat
}

// HasSynced implements refresh.Nodes.
func (m *measured) HasSynced() bool { return true }

// Names implements refresh.Nodes.
func (m *measured) Names() []string { return m.names }

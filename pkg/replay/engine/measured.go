package engine

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/report"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

// measured is the simulated nodes' usage in each tick, at most their capacity. It implements source.Source and refresh.Nodes.
type measured struct {
	names []string
	// capacity is that of all nodes.
	capacity podusage.Amounts
	start    time.Time
	ticks    int
	// kept is the number of ticks of the longest window requested.
	kept int
	// last holds the last kept utilizations as fractions of capacity, by node, at the tick's number modulo kept.
	last [][load.ResourceCount][]float32
	// sorted are the windows of quantiles, by length and node.
	sorted map[time.Duration][][load.ResourceCount]sortedWindow
}

func newMeasured(in *input.Input) *measured {
	m := &measured{
		start: in.Start, kept: 1, last: make([][load.ResourceCount][]float32, len(in.Nodes)),
		sorted: map[time.Duration][][load.ResourceCount]sortedWindow{},
	}
	for i := range in.Nodes {
		m.names = append(m.names, in.Nodes[i].Name)
		m.capacity[load.CPU] += in.Nodes[i].Capacity.CPUMillis
		m.capacity[load.Memory] += in.Nodes[i].Capacity.MemoryBytes
	}
	return m
}

// keep makes windows of this length available, with the tick before them. It must be called before add.
func (m *measured) keep(window time.Duration) { m.kept = max(m.kept, input.Ticks(window)+1) }

// add adds a node's utilization in the current tick. Call next after all nodes.
func (m *measured) add(node int, utilization podusage.Amounts) {
	for r, u := range utilization {
		values := &m.last[node][r]
		if len(*values) < m.kept {
			*values = append(*values, 0)
		}
		(*values)[m.ticks%m.kept] = float32(min(u, 1))
	}
}

func (m *measured) next() { m.ticks++ }

func (m *measured) Name() string { return "Replay" }

func (m *measured) Fetch(_ context.Context, request source.Request) (source.Batch, error) {
	batch := source.Batch{Samples: make([]load.Sample, 0, len(m.names)*(len(request.Windows)+len(request.Quantiles)))}
	if m.ticks == 0 {
		return batch, nil
	}
	end := m.start.Add(time.Duration(m.ticks) * input.Tick)
	for i, name := range m.names {
		for _, window := range request.Windows {
			stats := load.Stats{m.over(i, load.CPU, window), m.over(i, load.Memory, window)}
			batch.Samples = append(batch.Samples, load.Sample{Node: name, Window: window, End: end, Stats: stats})
		}
		for _, q := range request.Quantiles {
			stats := load.Stats{m.quantile(i, load.CPU, q), m.quantile(i, load.Memory, q)}
			batch.Samples = append(batch.Samples, load.Sample{Node: name, Window: q.Window, Fraction: q.Fraction, End: end, Stats: stats})
		}
	}
	return batch, nil
}

// window returns the first of the ticks before end that are within the window.
func (m *measured) window(end int, window time.Duration) (first int) {
	return max(end-input.Ticks(window), m.ticks-m.kept, 0)
}

// mean returns the mean and the mean square of a node's utilization in the ticks before end.
func (m *measured) mean(node int, r load.Resource, first, end int) (mean, meanSquare float64) {
	sum, squares := 0.0, 0.0
	values := m.last[node][r]
	for tick := first; tick < end; tick++ {
		u := float64(values[tick%m.kept])
		sum += u
		squares += u * u
	}
	n := float64(end - first)
	return sum / n, squares / n
}

// over returns the mean and the deviation of a node's utilization over the window.
func (m *measured) over(node int, r load.Resource, window time.Duration) load.Stat {
	first := m.window(m.ticks, window)
	mean, meanSquare := m.mean(node, r, first, m.ticks)
	return m.stat(mean, math.Sqrt(max(meanSquare-mean*mean, 0)), first, window)
}

// quantile returns the quantile of a node's utilization over a window.
func (m *measured) quantile(node int, r load.Resource, q load.Quantile) load.Stat {
	if m.sorted[q.Window] == nil {
		m.sorted[q.Window] = make([][load.ResourceCount]sortedWindow, len(m.names))
	}
	first, w := m.window(m.ticks, q.Window), &m.sorted[q.Window][node][r]
	if w.first < m.ticks-m.kept { // its first values are no longer kept
		*w = sortedWindow{first: first, end: first}
	}
	w.move(first, m.ticks, func(tick int) float32 { return m.last[node][r][tick%m.kept] })
	return m.stat(quantileOfSorted(w.values, q.Fraction), math.NaN(), first, q.Window)
}

// sortedWindow holds the values of the ticks in [first, end) in order. To sort a window of a day each tick takes a millisecond.
type sortedWindow struct {
	first, end int
	values     []float32
}

// move adds the ticks before end, then drops those before first.
func (w *sortedWindow) move(first, end int, value func(tick int) float32) {
	for ; w.end < end; w.end++ {
		i, _ := slices.BinarySearch(w.values, value(w.end))
		w.values = slices.Insert(w.values, i, value(w.end))
	}
	for ; w.first < first; w.first++ {
		i, _ := slices.BinarySearch(w.values, value(w.first))
		w.values = slices.Delete(w.values, i, i+1)
	}
}

func (m *measured) stat(mean, deviation float64, first int, window time.Duration) load.Stat {
	s := load.Stat{Mean: mean, StdDev: deviation, Known: true}
	if span := time.Duration(m.ticks-first) * input.Tick; span < window {
		s.Span = span
	}
	return s
}

// quantileOfSorted interpolates as quantile_over_time of Prometheus does.
func quantileOfSorted[F float32 | float64](values []F, fraction float64) float64 {
	rank := fraction * float64(len(values)-1)
	below := int(rank)
	above := min(below+1, len(values)-1)
	share := rank - float64(below)
	return float64(values[below])*(1-share) + float64(values[above])*share
}

func (m *measured) HasSynced() bool { return true }

func (m *measured) Names() []string { return m.names }

// bins is the number of histogram bins of a thousandth each; the last holds all above.
const bins = 4000

// figures adds up a report.Run, tick by tick.
type figures struct {
	report.Run
	// nodes is the number of counted node-ticks.
	nodes     int
	histogram [bins + 1]int
	// power has the power model of each node; nil for one without.
	power []*config.PowerModel
}

func newFigures(in *input.Input) *figures {
	days := max(int(math.Round(float64(in.Counted)/float64(input.Day))), 1)
	return &figures{
		Run: report.Run{Name: in.Name, Seed: in.Seed, HotByDay: make([]float64, days)}, power: make([]*config.PowerModel, len(in.Nodes)),
	}
}

// node counts a node's CPU demand during the tick, in milliCPU.
func (f *figures) node(i int, capacity, cpu float64) {
	u := cpu / capacity
	f.histogram[min(int(u*1000), bins)]++
	if model := f.power[i]; model != nil {
		f.EnergyHours += model.Power(100*min(u, 1)) * input.Tick.Hours()
	}
	f.UnservedCoreHours += max(cpu-capacity, 0) / 1000 * input.Tick.Hours()
	if u > report.SevereAbove {
		f.SevereMinutes += input.Tick.Minutes()
	}
	if u > load.Hot {
		f.HotMinutes += input.Tick.Minutes()
		day := f.nodes / len(f.power) / input.Ticks(input.Day) // the rest of a day, if less than a half, is of the day before
		f.HotByDay[min(day, len(f.HotByDay)-1)] += input.Tick.Minutes()
	}
	f.nodes++
}

func (f *figures) run(e *engine) report.Run {
	f.P99Utilization = f.percentile(0.99)
	f.Pending = len(e.waiting)
	return f.Run
}

// percentile returns a percentile of utilization over node-ticks, rounded up to a thousandth.
func (f *figures) percentile(share float64) float64 {
	rank, seen := int(math.Ceil(share*float64(f.nodes))), 0
	for bin, n := range f.histogram {
		if seen += n; seen >= rank && n > 0 {
			return float64(bin+1) / 1000
		}
	}
	return 0
}

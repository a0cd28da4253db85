package engine

import (
	"math"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/report"
)

const (
	// bins is the number of histogram bins of a thousandth each; the last holds all above.
	bins = 4000
	// chartStep is the time between two columns of charts.
	chartStep = 5 * time.Minute
)

// figures adds up a report.Run, tick by tick.
type figures struct {
	report.Run
	charts *report.Charts
	// counted is the number of counted ticks, nodes that of node-ticks.
	counted, nodes int
	histogram      [bins + 1]int
	// hotTicks and severeTicks are node-ticks; unserved is in milliCPU·ticks.
	hotTicks, severeTicks int
	unserved              float64
	// sum and squares are over the nodes of the current tick; deviation is the sum of the ticks' deviations.
	sum, squares float64
	deviation    float64
	inUse        int
	// column sums each node's utilization over the ticks of the charts' current column; hot counts its hot node-ticks.
	column       []float64
	columnTicks  int
	hot          int
	waitingTicks int
	// power has the power model of each node; nil for one without.
	power []*config.PowerModel
}

func newFigures(in *input.Input) *figures {
	f := &figures{column: make([]float64, len(in.Nodes)), power: make([]*config.PowerModel, len(in.Nodes))}
	f.Name, f.Seed = in.Name, in.Seed
	f.charts = &report.Charts{
		StepSeconds: chartStep.Seconds(), StartSeconds: (in.Length - in.Counted).Seconds(),
		Utilization: make([][]byte, len(in.Nodes)), Distribution: make([]float64, 101),
	}
	for i := range in.Nodes {
		f.charts.NodeNames = append(f.charts.NodeNames, in.Nodes[i].Name)
	}
	return f
}

// node counts a node's CPU demand during the tick, in milliCPU.
func (f *figures) node(i int, n *nodeState, cpu float64) {
	capacity := n.capacity.CPUMillis
	u := cpu / capacity
	f.nodes++
	f.histogram[min(int(u*1000), bins)]++
	f.charts.Distribution[min(int(u*100), len(f.charts.Distribution)-1)]++
	f.sum += u
	f.squares += u * u
	f.column[i] += u
	if n.placed > 0 {
		f.inUse++
	}
	if model := f.power[i]; model != nil {
		f.EnergyHours += model.Power(100*min(u, 1)) * input.Tick.Hours()
	}
	f.unserved += max(cpu-capacity, 0)
	if u > report.SevereAbove {
		f.severeTicks++
	}
	if u > load.Hot {
		f.hotTicks++
		f.hot++
	}
}

func (f *figures) tick(tick int) {
	n := float64(len(f.column))
	m := f.sum / n
	f.deviation += math.Sqrt(max(f.squares/n-m*m, 0))
	f.sum, f.squares = 0, 0
	f.counted++
	f.columnTicks++
	if (time.Duration(tick+1)*input.Tick)%chartStep == 0 {
		f.endColumn()
	}
}

func (f *figures) endColumn() {
	if f.columnTicks == 0 {
		return
	}
	f.charts.HotNodes = append(f.charts.HotNodes, float64(f.hot)/float64(f.columnTicks))
	for i, sum := range f.column {
		percent := min(math.Round(100*sum/float64(f.columnTicks)), math.MaxUint8)
		f.charts.Utilization[i] = append(f.charts.Utilization[i], byte(percent))
		f.column[i] = 0
	}
	f.hot, f.columnTicks = 0, 0
}

func (f *figures) run(e *engine) report.Run {
	f.endColumn()
	f.HotMinutes = float64(f.hotTicks) * input.Tick.Minutes()
	f.SevereMinutes = float64(f.severeTicks) * input.Tick.Minutes()
	f.UnservedCoreHours = f.unserved / 1000 * input.Tick.Hours()
	f.P99Utilization = f.percentile(0.99)
	f.Pending = len(e.waiting)
	f.PendingMinutes = float64(f.waitingTicks) * input.Tick.Minutes()
	if f.counted > 0 {
		f.Deviation = f.deviation / float64(f.counted)
		f.NodesInUse = float64(f.inUse) / float64(f.counted)
		for i := range f.charts.Distribution {
			f.charts.Distribution[i] /= float64(f.nodes)
		}
	}
	f.Charts = f.charts
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

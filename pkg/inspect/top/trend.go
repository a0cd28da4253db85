package top

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

const (
	// trendSpan is the time that a trend covers, and trendStep that between two of its points.
	trendSpan = time.Hour
	trendStep = 5 * time.Minute
	// pastTimeout bounds a look at the past, for which nothing waits.
	pastTimeout = 10 * time.Second
)

// Trend is the measured load of the last hour.
type Trend struct {
	// Times are the ends of the measured windows, in order.
	Times []time.Time `json:"times"`
	// Nodes are the nodes by name.
	Nodes map[string]*NodeTrend `json:"nodes"`
}

// NodeTrend is the measured load of a node at the times of a Trend, in percent of capacity. A value is nil where nothing was
// measured.
type NodeTrend struct {
	CPU    []*float64 `json:"cpuPercent"`
	Memory []*float64 `json:"memoryPercent"`
}

// trendPoint is the load of all nodes at one time; NaN where it is not known.
type trendPoint struct {
	at    time.Time
	nodes map[string][load.ResourceCount]float64
}

func (p *trendPoint) set(node string, r load.Resource, mean float64) {
	loads, ok := p.nodes[node]
	if !ok {
		loads = [load.ResourceCount]float64{math.NaN(), math.NaN()}
	}
	loads[r] = mean
	p.nodes[node] = loads
}

// UpdateTrend adds the present load when it is due. Otherwise it asks the source for one more point of the past, until an hour is
// known. What the source does not know of the past stays unknown. It reports whether the trend changed.
func (s *Session) UpdateTrend(ctx context.Context) (changed bool, err error) {
	now := s.clock.Now()
	s.trend = slices.DeleteFunc(s.trend, func(p trendPoint) bool { return now.Sub(p.at) > trendSpan })
	if n := len(s.trend); n == 0 || now.Sub(s.trend[n-1].at) >= trendStep {
		point, err := s.reader.measured(ctx, now)
		s.trend = append(s.trend, point)
		return true, err
	}
	if at := s.trend[0].at.Add(-trendStep); now.Sub(at) <= trendSpan {
		s.trend = slices.Insert(s.trend, 0, s.past(ctx, at))
		return true, nil
	}
	return false, nil
}

// measured returns the figures that the plugin reads at present.
func (r *Reader) measured(ctx context.Context, now time.Time) (trendPoint, error) {
	point := trendPoint{now, map[string][load.ResourceCount]float64{}}
	infos, err := r.scheduler.NodeInfos(ctx)
	if err != nil {
		return point, err
	}
	look := r.look()
	for _, info := range infos {
		figures := r.plugin.Reader().Figures(look.state, info.Node().Name)
		for of := range load.ResourceCount {
			if figures[of].State == load.Fresh {
				point.set(info.Node().Name, of, figures[of].Value)
			}
		}
	}
	return point, nil
}

// past returns the figures that the plugin would have read at an earlier time. Without a source that knows them, there are none.
func (s *Session) past(ctx context.Context, at time.Time) trendPoint {
	ctx, cancel := context.WithTimeout(ctx, pastTimeout)
	defer cancel()
	point := trendPoint{at, map[string][load.ResourceCount]float64{}}
	reader := s.reader.plugin.Reader()
	for _, status := range s.cluster.Sources() {
		if known, ok := status.Source.(source.PastLoad); ok && slices.Contains(status.Readers, reader) {
			for of, window := range reader.Request().Windows {
				point.add(ctx, known, load.Resource(of), load.Quantile{Window: window, Fraction: reader.Request().Fraction})
			}
		}
	}
	return point
}

// add adds what the source knows of a resource. A failure leaves a gap.
func (p *trendPoint) add(ctx context.Context, from source.PastLoad, r load.Resource, of load.Quantile) {
	samples, err := from.FetchPast(ctx, r, of, p.at)
	if err != nil {
		return
	}
	for i := range samples {
		if stat, _ := samples[i].Stats[r].Checked(); stat.Known {
			p.set(samples[i].Node, r, stat.Mean)
		}
	}
}

// Trend returns the load of the last hour, as far as UpdateTrend has read it.
func (s *Session) Trend() *Trend { return trendOf(s.trend) }

func trendOf(points []trendPoint) *Trend {
	t := &Trend{Times: make([]time.Time, len(points)), Nodes: map[string]*NodeTrend{}}
	for i, p := range points {
		t.Times[i] = p.at.UTC().Truncate(time.Second)
		for node, loads := range p.nodes {
			n := t.Nodes[node]
			if n == nil {
				n = &NodeTrend{make([]*float64, len(points)), make([]*float64, len(points))}
				t.Nodes[node] = n
			}
			for r, values := range [load.ResourceCount][]*float64{load.CPU: n.CPU, load.Memory: n.Memory} {
				if !math.IsNaN(loads[r]) {
					values[i] = new(math.Round(1000*loads[r]) / 10)
				}
			}
		}
	}
	return t
}

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
	// pastTimeout bounds a look at the past, for which refreshes wait. One that failed is tried again after pastRetry.
	pastTimeout = 5 * time.Second
	pastRetry   = 30 * time.Second
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

// UpdateTrend adds the present load when it is due, and reports whether the trend changed. While the last hour is not known,
// readPast asks the source for one more point. It must not run during Update, and is otherwise independent of the session. add adds
// the point, and reports whether there is one.
func (s *Session) UpdateTrend(ctx context.Context) (changed bool, readPast func(context.Context) (add func() bool), err error) {
	now := s.clock.Now()
	s.trend = slices.DeleteFunc(s.trend, func(p trendPoint) bool { return now.Sub(p.at) > trendSpan })
	if isPresentDue(s.trend, now) {
		point, err := s.reader.measured(ctx, now)
		if err != nil {
			return false, nil, err
		}
		s.trend, changed = withPresent(s.trend, point)
	}
	at := s.trend[0].at.Add(-trendStep)
	if now.Sub(at) > trendSpan || now.Sub(s.pastFailed) < pastRetry {
		return changed, nil, nil
	}
	queries := s.pastQueries()
	return changed, func(ctx context.Context) func() bool {
		point, ok := pastOf(ctx, queries, at)
		return func() bool {
			if !ok {
				s.pastFailed = s.clock.Now()
				return false
			}
			s.trend = slices.Insert(s.trend, 0, point)
			return true
		}
	}, nil
}

// isPresentDue reports whether the last point is old, or has no load.
func isPresentDue(trend []trendPoint, now time.Time) bool {
	n := len(trend)
	return n == 0 || len(trend[n-1].nodes) == 0 || now.Sub(trend[n-1].at) >= trendStep
}

// withPresent adds a point. It replaces one at which no load was fresh, unless that is a gap of trendStep.
func withPresent(trend []trendPoint, point trendPoint) (with []trendPoint, changed bool) {
	n := len(trend)
	switch {
	case n == 0 || point.at.Sub(trend[n-1].at) >= trendStep:
		return append(trend, point), true
	case len(point.nodes) == 0:
		return trend, false
	}
	trend[n-1] = point
	return trend, true
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

// pastQuery is what a source is asked about the past.
type pastQuery struct {
	source   source.PastLoad
	resource load.Resource
	of       load.Quantile
}

// pastQueries are those of the figures that the plugin reads. Without a source that knows the past, there are none.
func (s *Session) pastQueries() (queries []pastQuery) {
	reader := s.reader.plugin.Reader()
	for _, status := range s.cluster.Sources() {
		if known, ok := status.Source.(source.PastLoad); ok && slices.Contains(status.Readers, reader) {
			for of := range load.ResourceCount {
				queries = append(queries, pastQuery{known, of, reader.Request().Statistic(of)})
			}
		}
	}
	return queries
}

// pastOf returns the figures that the plugin would have read at an earlier time; not ok if all queries failed.
func pastOf(ctx context.Context, queries []pastQuery, at time.Time) (point trendPoint, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, pastTimeout)
	defer cancel()
	point = trendPoint{at, map[string][load.ResourceCount]float64{}}
	ok = len(queries) == 0
	for _, q := range queries {
		ok = point.add(ctx, q) == nil || ok
	}
	return point, ok
}

// add adds what the source knows of a resource.
func (p *trendPoint) add(ctx context.Context, q pastQuery) error {
	samples, err := q.source.FetchPast(ctx, q.resource, q.of, p.at)
	if err != nil {
		return err
	}
	for i := range samples {
		if stat, _ := samples[i].Stats[q.resource].Checked(); stat.Known {
			p.set(samples[i].Node, q.resource, stat.Mean)
		}
	}
	return nil
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

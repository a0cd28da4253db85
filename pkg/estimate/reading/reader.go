// Package reading lets plugins and tools request load from a source, and read it.
package reading

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/peak"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
)

// Source is a publisher of load that readers share. It is safe for concurrent use. Use NewSource.
type Source struct {
	snapshots *estimate.Snapshots
	clock     clock.PassiveClock

	mu     sync.Mutex
	models []*estimate.Model
	peaks  []*peak.Model
	// statistics are by publisher: all models of one publisher see the same Statistics in a cycle.
	statistics map[*learned.Publisher]*peak.CycleStatistics
}

// NewSource returns the source of the load that p publishes. Create one source per publisher.
func NewSource(p *load.Publisher, c clock.PassiveClock) *Source {
	return &Source{snapshots: estimate.NewSnapshots(p), clock: c, statistics: map[*learned.Publisher]*peak.CycleStatistics{}}
}

func (s *Source) Snapshots() *estimate.Snapshots { return s.snapshots }

// Reader returns a reader of the source. statistics are those of workloads; they may be nil unless request.Peak is set.
func (s *Source) Reader(request Request, statistics *learned.Publisher) *Reader {
	r := &Reader{request: request, snapshots: s.snapshots, clock: s.clock}
	if len(request.Metrics) > 0 {
		r.metrics = estimate.NewNodeMetrics(s.snapshots, request.Spec.MaxAge.Duration, s.clock)
		return r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for resource, window := range request.Windows {
		if request.Peak != nil {
			r.peaks[resource] = s.peak(&request, window, statistics)
			r.models[resource] = r.peaks[resource].Load()
			continue
		}
		r.models[resource] = shared(s, &s.models, estimate.NewModel, estimate.Config{
			Window: window, Fraction: request.Fraction, Trust: request.Trust(),
			Estimators: estimate.Fixed{Estimator: request.Estimator}, Clock: s.clock,
		})
	}
	return r
}

// shared returns the source's model for the config. Readers with the same config share one, with what it caches of each node.
func shared[M interface{ Config() C }, C comparable](s *Source, models *[]M, build func(*estimate.Snapshots, C) M, config C) M {
	for _, m := range *models {
		if m.Config() == config {
			return m
		}
	}
	m := build(s.snapshots, config)
	*models = append(*models, m)
	return m
}

// peak returns the source's model for the request's peaks over the window. p publishes the statistics of workloads.
func (s *Source) peak(request *Request, window time.Duration, p *learned.Publisher) *peak.Model {
	if s.statistics[p] == nil {
		s.statistics[p] = peak.NewCycleStatistics(p)
	}
	return shared(s, &s.peaks, peak.NewModel, peak.Config{
		Window: window, Trust: request.Trust(), Clock: s.clock, Statistics: s.statistics[p],
		Predictor: learned.Predictor{
			WorkloadLabel: request.Peak.WorkloadLabel, MinHistory: request.Peak.MinHistory.Duration,
			Multiplier: request.Peak.Unknown.RequestMultiplier, Default: podusage.AmountsOf(request.Peak.Unknown.Default),
			MaxRequestRatio: request.Peak.MaxLimitRequestRatio,
		},
	})
}

// Reader reads what a Request asks of a source. It is safe for concurrent use.
type Reader struct {
	request   Request
	snapshots *estimate.Snapshots
	clock     clock.PassiveClock
	models    [load.ResourceCount]*estimate.Model
	peaks     [load.ResourceCount]*peak.Model
	metrics   *estimate.NodeMetrics
}

func (r *Reader) Request() *Request { return &r.request }

// Clock tells the age of measurements.
func (r *Reader) Clock() clock.PassiveClock { return r.clock }

func (r *Reader) Snapshots() *estimate.Snapshots { return r.snapshots }

// Model returns the model of a resource's load over its window; nil if the request is for node metrics. Equal windows have the
// same model.
func (r *Reader) Model(of load.Resource) *estimate.Model { return r.models[of] }

// NodeMetrics returns the node metrics; nil if the request is for load.
func (r *Reader) NodeMetrics() *estimate.NodeMetrics { return r.metrics }

// Peak returns the model of a resource's peaks; nil if the request predicts none. Equal windows have the same model.
func (r *Reader) Peak(of load.Resource) *peak.Model { return r.peaks[of] }

// PodUsage estimates the usage of the pod to place, outside of any scheduling cycle.
func (r *Reader) PodUsage(pod *corev1.Pod) podusage.Amounts {
	if peaks := r.peaks[load.CPU]; peaks != nil {
		return peaks.Latest().Estimate(pod)
	}
	return r.request.Estimator.Estimate(pod)
}

// Figure is one value that was measured of a node.
type Figure struct {
	// Name is "cpu" or "memory", or the PromQL expression of a node metric.
	Name string
	// Value is a fraction of capacity, or the value of the metric. It is 0 where State is load.Absent.
	Value float64
	// Window is that of the mean, or of the quantile that Fraction selects. Both are 0 for a metric.
	Window   time.Duration
	Fraction float64
	// StdDev is the standard deviation of a mean. Momentary reports whether the source measured it at a moment, not over Window.
	StdDev    float64
	Momentary bool
	// End is the end of the window, or the time of the metric's value.
	End   time.Time
	State load.State
}

// Figures returns the node's last measurements in the cycle's snapshot, by load.Resource or in the order of Request.Metrics.
func (r *Reader) Figures(state fwk.CycleState, node string) []Figure {
	if r.metrics != nil {
		return r.metricFigures(state, node)
	}
	figures, snapshot, now := make([]Figure, load.ResourceCount), r.snapshots.ForCycle(state), r.clock.Now()
	for of := range load.ResourceCount {
		statistic := r.request.Statistic(of)
		m := snapshot.Table(statistic).Node(node)[of]
		figures[of] = Figure{
			Name: of.String(), Value: m.Mean, Window: statistic.Window, Fraction: statistic.Fraction,
			End: m.End, State: m.State(now, r.request.Trust()),
		}
		if statistic.Fraction == 0 {
			figures[of].StdDev, figures[of].Momentary = m.StdDev, m.Window == 0
		}
	}
	return figures
}

func (r *Reader) metricFigures(state fwk.CycleState, node string) []Figure {
	figures, view := make([]Figure, len(r.request.Metrics)), r.metrics.View(state)
	row := view.RowOf(node)
	for i, expression := range r.request.Metrics {
		f := &figures[i]
		value, end, measured := view.Values(expression).Measured(row)
		if f.Name, f.State = expression, measured; measured != load.Absent {
			f.Value, f.End = value, time.Unix(0, end)
		}
	}
	return figures
}

// Request is what one reader asks of one source.
type Request struct {
	// Spec names the source, and says how long its load is trusted. Windows replace its window.
	Spec config.LoadSpec
	// Windows are by load.Resource.
	Windows [load.ResourceCount]time.Duration
	// Ignores marks resources, by load.Resource, whose load is measured but not used by the reader.
	Ignores [load.ResourceCount]bool
	// Fraction selects a quantile over the windows, in (0, 1]; 0 selects means and deviations. Only Prometheus has quantiles.
	Fraction float64
	// UsesDeviation reports whether the reader uses standard deviations.
	UsesDeviation bool
	// Metrics are PromQL expressions with one value per node. A request with metrics reads no load.
	Metrics []string
	// Peak says how peaks are predicted, by statistics of the pods' workloads; nil predicts none.
	Peak *config.PeakSpec
	// Estimator estimates the pods that the windows do not cover yet. It must be comparable. Peak replaces it.
	Estimator podusage.Estimator
}

// ForLoad returns a request of the mean of all resources over the window of the spec.
func ForLoad(spec config.LoadSpec, e podusage.Estimator) Request {
	window := spec.Window.Duration
	return Request{Spec: spec, Windows: [load.ResourceCount]time.Duration{window, window}, Estimator: e}
}

// Resources are those whose load the reader uses; none for node metrics.
func (r *Request) Resources() (used []load.Resource) {
	for of, ignored := range r.Ignores {
		if !ignored && len(r.Metrics) == 0 {
			used = append(used, load.Resource(of))
		}
	}
	return used
}

// Statistic is what the reader reads of a resource's load: a quantile, or the mean if its Fraction is 0.
func (r *Request) Statistic(of load.Resource) load.Quantile {
	return load.Quantile{Window: r.Windows[of], Fraction: r.Fraction}
}

func (r *Request) Trust() load.Trust {
	return load.Trust{
		RefreshInterval: r.Spec.RefreshInterval.Duration, MaxAge: r.Spec.MaxAge.Duration, DriftTolerance: r.Spec.DriftTolerance,
	}
}

// Requirements are what a refresh of the source has to read.
func (r *Request) Requirements() load.Requirements {
	required := load.Requirements{RefreshInterval: r.Spec.RefreshInterval.Duration, Metrics: r.Metrics}
	if len(r.Metrics) > 0 {
		return required
	}
	for of := range load.ResourceCount {
		if s := r.Statistic(of); s.Fraction > 0 {
			required.Quantiles = append(required.Quantiles, s)
		} else {
			required.Windows = append(required.Windows, s.Window)
		}
	}
	return required
}

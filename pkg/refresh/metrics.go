package refresh

import (
	"context"
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

// Metrics are the telemetry of all watchers of a process. Ages and states are computed when they are scraped, so that they
// are right also while a source hangs.
type Metrics struct {
	metrics.BaseStableCollector
	refreshes *metrics.CounterVec
	durations *metrics.HistogramVec
	rejected  *metrics.CounterVec
	panics    *metrics.CounterVec
	unmatched *metrics.GaugeVec
	contested *metrics.GaugeVec
	measured  *metrics.GaugeVec
	history   *metrics.GaugeVec
	givenUp   *metrics.GaugeVec
	age       *metrics.Desc
	nodes     *metrics.Desc
	workloads *metrics.Desc
	learnedAt *metrics.Desc

	mu               sync.Mutex
	watchers         []*Watcher
	workloadWatchers []*WorkloadWatcher
}

var _ metrics.StableCollector = &Metrics{}

// Registry is where metrics are registered, such as component-base's legacyregistry.
type Registry interface {
	MustRegister(...metrics.Registerable)
	CustomMustRegister(...metrics.StableCollector)
}

// Names of metrics that doctor reads.
const (
	BuildInfo      = "plimsoll_build_info"
	RefreshTotal   = "plimsoll_refresh_total"
	LoadNodes      = "plimsoll_load_nodes"
	Workloads      = "plimsoll_workloads"
	WorkloadsAge   = "plimsoll_workload_statistics_age_seconds"
	HistoryRead    = "plimsoll_workload_history_read_ratio"
	HistoryGivenUp = "plimsoll_workload_history_given_up"
	PanicsTotal    = "plimsoll_refresh_panics_total"
)

// NewMetrics returns the metrics, registered.
func NewMetrics(registry Registry) *Metrics {
	counter := func(name, help string, labels ...string) *metrics.CounterVec {
		return metrics.NewCounterVec(&metrics.CounterOpts{Name: name, Help: help, StabilityLevel: metrics.ALPHA}, labels)
	}
	gauge := func(name, help string, labels ...string) *metrics.GaugeVec {
		return metrics.NewGaugeVec(&metrics.GaugeOpts{Name: name, Help: help, StabilityLevel: metrics.ALPHA}, labels)
	}
	desc := func(name, help string, labels ...string) *metrics.Desc {
		return metrics.NewDesc(name, help, labels, nil, metrics.ALPHA, "")
	}
	m := &Metrics{
		refreshes: counter(RefreshTotal, "Refreshes of the load source, by result: Success or Error.", "source", "result"),
		durations: metrics.NewHistogramVec(&metrics.HistogramOpts{
			Name: "plimsoll_refresh_duration_seconds", Help: "Time that one refresh of the load source took.",
			Buckets: metrics.ExponentialBuckets(0.005, 2, 13), StabilityLevel: metrics.ALPHA, // 5 ms to 20 s
		}, []string{"source"}),
		rejected: counter("plimsoll_rejected_samples_total", "Measured values that were rejected: not a number (NotANumber), Negative, "+
			"above the node's capacity and read as full (AboveCapacity), or dated more than a refresh interval ahead and read as of now "+
			"(FromTheFuture). Also responses that lack data, as the server says (PartialResponse) or as many missing nodes or pods show "+
			"(IncompleteResponse).", "source", "reason"),
		panics: counter(PanicsTotal,
			"Refreshes that ended in a panic, which is in the log. What was read before stays in use.", "source"),
		unmatched: gauge("plimsoll_unmatched_series", "Series of the last refresh that belong to no node of the cluster.", "source"),
		contested: gauge("plimsoll_contested_nodes",
			"Nodes of the last refresh about which sets of scrape targets differ. Their pods' requests decide.", "source"),
		measured: gauge("plimsoll_measured_pods_ratio",
			"Share of the pods that have run for ten minutes whose usage was measured in the last refresh.", "source", "resource"),
		history: gauge(HistoryRead, "Share of the past usage of workloads that has been read since the start.", "source"),
		givenUp: gauge(HistoryGivenUp,
			"1 if the rest of the past usage of workloads is left out, after several failures to read it.", "source"),
		age: desc("plimsoll_load_age_seconds", "Age of the newest load of any node.", "source"),
		nodes: desc(LoadNodes,
			"Nodes by load over the shortest window: Fresh, Expired (too old for all plugins), or Absent (never measured).",
			"source", "resource", "state"),
		workloads: desc(Workloads, "Workloads of which statistics are known.", "source"),
		learnedAt: desc(WorkloadsAge, "Age of the newest observation in the statistics of workloads.", "source"),
	}
	registry.MustRegister(m.refreshes, m.durations, m.rejected, m.panics, m.unmatched, m.contested, m.measured, m.history, m.givenUp)
	registry.CustomMustRegister(m)
	return m
}

func (m *Metrics) register(w *Watcher) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watchers = append(m.watchers, w)
	m.initialize(w.label)
}

func (m *Metrics) registerWorkloads(w *WorkloadWatcher) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.workloadWatchers = append(m.workloadWatchers, w)
	m.initialize(w.Label)
}

func (m *Metrics) initialize(label string) {
	for _, result := range []string{resultSuccess, resultError} {
		m.refreshes.WithLabelValues(label, result)
	}
	for _, reason := range load.Rejections() {
		m.rejected.WithLabelValues(label, string(reason))
	}
	m.panics.WithLabelValues(label)
}

const (
	resultSuccess = "Success"
	resultError   = "Error"
)

func (m *Metrics) refreshed(label string, took time.Duration, err error) {
	result := resultSuccess
	if err != nil {
		result = resultError
	}
	m.refreshes.WithLabelValues(label, result).Inc()
	m.durations.WithLabelValues(label).Observe(took.Seconds())
}

func (m *Metrics) countRejected(label string, rejected source.Rejected) {
	for reason, n := range rejected {
		m.rejected.WithLabelValues(label, string(reason)).Add(float64(n))
	}
}

// panicked returns the error of a refresh: err, or the recovered panic. A panic is counted, also as a failed refresh, and logged
// with its stack.
func (m *Metrics) panicked(ctx context.Context, label string, recovered any, err error) error {
	if recovered == nil {
		return err
	}
	failed := source.NewPanicError(recovered)
	m.panics.WithLabelValues(label).Inc()
	m.refreshes.WithLabelValues(label, resultError).Inc()
	klog.FromContext(ctx).Error(failed, "A refresh panicked. What was read before stays in use: please report this",
		"source", label, "stack", string(failed.Stack))
	return failed
}

func (m *Metrics) DescribeWithStability(ch chan<- *metrics.Desc) {
	ch <- m.age
	ch <- m.nodes
	ch <- m.workloads
	ch <- m.learnedAt
}

func (m *Metrics) CollectWithStability(ch chan<- metrics.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.watchers {
		newest, states := w.states()
		if !newest.IsZero() {
			ch <- metrics.NewLazyConstMetric(m.age, metrics.GaugeValue, w.clock.Since(newest).Seconds(), w.label)
		}
		for r := range states {
			for state, n := range states[r] {
				ch <- metrics.NewLazyConstMetric(m.nodes, metrics.GaugeValue, float64(n),
					w.label, load.Resource(r).String(), load.State(state).String())
			}
		}
	}
	for _, w := range m.workloadWatchers {
		latest := w.publisher.Latest()
		ch <- metrics.NewLazyConstMetric(m.workloads, metrics.GaugeValue, float64(latest.Len()), w.Label)
		if !latest.At().IsZero() {
			ch <- metrics.NewLazyConstMetric(m.learnedAt, metrics.GaugeValue, w.Clock.Since(latest.At()).Seconds(), w.Label)
		}
	}
}

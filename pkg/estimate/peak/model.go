// Package peak predicts the peaks of nodes: what their pods use at their 95th percentiles, by statistics of the workloads.
package peak

import (
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
)

// CycleStatistics gives all models the same Statistics in a scheduling cycle. It is safe for concurrent use. Use
// NewCycleStatistics, once per publisher.
type CycleStatistics struct {
	publisher *learned.Publisher
	pin       estimate.Pin[learned.Statistics]
}

// NewCycleStatistics returns the statistics that p publishes.
func NewCycleStatistics(p *learned.Publisher) *CycleStatistics { return &CycleStatistics{publisher: p} }

func (s *CycleStatistics) forCycle(state fwk.CycleState) *learned.Statistics {
	if snapshot := s.pin.Get(state); snapshot != nil {
		return snapshot
	}
	snapshot, _ := s.pin.Set(state, s.publisher.Latest())
	return snapshot
}

// Config says what a Model reads, and how it predicts. It is comparable.
type Config struct {
	// Window is the span that the measured means are taken over.
	Window time.Duration
	// Trust says how long a measurement is used.
	Trust      load.Trust
	Clock      clock.PassiveClock
	Statistics *CycleStatistics
	Predictor  learned.Predictor
}

// Model predicts the peaks of nodes by the load in the snapshots and by statistics. It is safe for concurrent use.
type Model struct {
	config     Config
	load       *estimate.Model
	prediction atomic.Pointer[learned.Prediction]
	nodes      *estimate.PerNode[podSums]
}

// NewModel returns a model of the load in the snapshots. It lives as long as their publisher.
func NewModel(snapshots *estimate.Snapshots, config Config) *Model {
	m := &Model{config: config}
	m.load = estimate.NewModel(snapshots, estimate.Config{
		Window: config.Window, Trust: config.Trust, Estimators: m, Clock: config.Clock,
	})
	m.nodes = estimate.NewPerNode[podSums](m.load)
	return m
}

// Config returns the model's configuration.
func (m *Model) Config() Config { return m.config }

// Load is the model of the means, which estimates pods by their predictions.
func (m *Model) Load() *estimate.Model { return m.load }

// ForCycle implements estimate.Estimators.
func (m *Model) ForCycle(state fwk.CycleState) podusage.Estimator {
	return m.predictionBy(m.config.Statistics.forCycle(state))
}

// Latest returns the prediction by the latest statistics, outside of any scheduling cycle.
func (m *Model) Latest() *learned.Prediction {
	return m.predictionBy(m.config.Statistics.publisher.Latest())
}

// predictionBy returns the one prediction by the statistics: estimates are cached by it.
func (m *Model) predictionBy(s *learned.Statistics) *learned.Prediction {
	previous := m.prediction.Load()
	if previous != nil && previous.Statistics == s {
		return previous
	}
	p := m.config.Predictor.At(s)
	if !m.prediction.CompareAndSwap(previous, p) {
		if other := m.prediction.Load(); other.Statistics == s {
			return other
		}
	}
	return p
}

// LatestPods returns the sums that the last cycle computed for the node, as a pod of the namespace sees them. If no cycle did, they
// are empty.
func (m *Model) LatestPods(node, namespace string) NodeSums {
	if latest := m.nodes.Latest(node); latest != nil {
		return *latest.seenBy(namespace)
	}
	return NodeSums{{Largest: NoPod}, {Largest: NoPod}}
}

// View returns the peaks as the scheduling cycle sees them.
func (m *Model) View(state fwk.CycleState) *View {
	prediction := m.predictionBy(m.config.Statistics.forCycle(state))
	return &View{View: m.load.ViewBy(state, prediction), model: m, prediction: prediction}
}

// View is the load and the peaks as one scheduling cycle sees them. It is safe for concurrent use.
type View struct {
	*estimate.View
	model      *Model
	prediction *learned.Prediction
}

// For returns the load and the peaks as the pod to place sees them. See estimate.View.For.
func (v *View) For(pod *corev1.Pod) *View {
	seen := *v
	seen.View = v.View.For(pod)
	return &seen
}

// HasStatistics reports whether statistics of at least one workload are known.
func (v *View) HasStatistics() bool { return v.prediction.Statistics.Len() > 0 }

// Pod predicts the usage of the pod to place.
func (v *View) Pod(pod *corev1.Pod) *learned.Usages { return new(v.prediction.Incoming(pod)) }

// Node returns the terms of the node's peaks, by load.Resource, with a pod of the given usages on it.
func (v *View) Node(node fwk.NodeInfo, pod *learned.Usages, deviations float64) (resources [load.ResourceCount]Resource) {
	e, derived := v.model.nodes.Of(v.View, node, v)
	sums, hasStatistics := derived.seenBy(v.Namespace()), v.HasStatistics()
	for r := range resources {
		of := &resources[r]
		of.set(e[r], &sums[r], &pod[r], deviations)
		of.HasStatistics = hasStatistics
	}
	return resources
}

// Package peak predicts the peaks of nodes: what their pods use at their 95th percentiles, by statistics of the workloads.
package peak

import (
	"math"
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

func (m *Model) Config() Config { return m.config }

// Load is the model of the means, which estimates pods by their predictions.
func (m *Model) Load() *estimate.Model { return m.load }

func (m *Model) ForCycle(state fwk.CycleState) podusage.Estimator {
	return m.predictionBy(m.config.Statistics.forCycle(state))
}

// Latest returns the prediction by the latest statistics, outside of any scheduling cycle.
func (m *Model) Latest() *learned.Prediction {
	return m.predictionBy(m.config.Statistics.publisher.Latest())
}

// predictionBy returns the prediction for s. While s does not change, it is the same one: estimates are cached by the prediction.
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

// LatestPods returns the sums that the last cycle computed for the node, as a pod of the namespace sees them. The sums
// are empty if no cycle has computed them.
func (m *Model) LatestPods(node, namespace string) NodeSums {
	if latest := m.nodes.Latest(node); latest != nil {
		return *latest.seenBy(namespace)
	}
	return NodeSums{{Largest: NoPod}, {Largest: NoPod}}
}

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
		of.Set(e[r], &sums[r], &pod[r], deviations)
		of.HasStatistics = hasStatistics
	}
	return resources
}

// Resource holds the terms of the predicted peak of one resource of a node. All amounts are in milliCPU or bytes.
type Resource struct {
	// Node is the measured and pending usage of the node.
	Node *estimate.ResourceEstimate
	Pods *PodSums
	// Pod is the predicted usage of the pod to place, capped at the node's allocatable. With fresh load, P95 excludes Startup.
	Pod learned.Usage
	// Deviations is the z-factor for the remaining pods. ≥ 0.
	Deviations float64
	// HasStatistics reports whether statistics of at least one workload are known.
	HasStatistics bool
}

// Set sets the terms of a node's peak with a pod of the given usage on it. Filter and Score call Set for each node. A returned copy
// would double the time.
func (r *Resource) Set(node *estimate.ResourceEstimate, pods *PodSums, pod *learned.Usage, deviations float64) {
	r.Node, r.Pods, r.Deviations = node, pods, deviations
	r.Pod = pod.Within(node.Allocatable)
	if u := &r.Pod; u.Startup > 0 && node.State == load.Fresh {
		u.P95 = max(u.P95-u.Startup, u.Mean)
	}
}

// Mean is the expected mean with the pod. With fresh load: the larger of load and learned usage, plus the pod's mean. Else with
// statistics: the sum of the means of all pods. Else: the node's estimate by requests, plus the pod's mean.
func (r *Resource) Mean() float64 {
	switch {
	case r.Node.State == load.Fresh:
		return max(r.Node.Mean+r.Node.Pending, r.Pods.Learned) + r.Pod.Mean
	case r.HasStatistics:
		return r.Pods.Mean + r.Pod.Mean
	}
	return r.Node.Mean + r.Pod.Mean
}

func (r *Resource) PodIsLargest() bool {
	return r.Pods.Largest == NoPod || r.Pod.Excess() > r.podsExcess()
}

// Excess is the largest excess of one pod's peak over its mean.
func (r *Resource) Excess() float64 { return max(r.Pod.Excess(), r.podsExcess()) }

// podsExcess is the largest excess of a pod on the node. Without fresh load, Startup is 0, so the excess includes startup usage.
func (r *Resource) podsExcess() float64 {
	if r.Node.State == load.Fresh {
		return r.Pods.Excess
	}
	return r.Pods.Excess + float64(r.Pods.ExcessOfStartups)
}

// Deviation is the standard deviation of the summed usage of all pods except the largest. Pods are assumed to be independent.
func (r *Resource) Deviation() float64 {
	if r.PodIsLargest() {
		return math.Sqrt(r.Pods.RestVariance + r.Pods.LargestVariance)
	}
	return math.Sqrt(r.Pods.RestVariance + r.Pod.Variance)
}

// Startup is the usage beyond the mean of all pods that start, the pod to place included. Without fresh load it is 0.
func (r *Resource) Startup() float64 {
	if r.Node.State != load.Fresh {
		return 0
	}
	return r.Pods.Startup + r.Pod.Startup
}

// Peak is the predicted peak as a fraction of the node's capacity: mean, largest excess, Deviations · Deviation and Startup.
// It may be above 1. A node without capacity has no room: its peak is 1.
//
// The formula follows N. Bashir et al., "Take it to the limit: peak prediction-driven resource overcommitment in datacenters".
// EuroSys 2021.
func (r *Resource) Peak() float64 {
	if r.Node.Base <= 0 {
		return 1
	}
	return (r.Mean() + r.Excess() + r.Deviations*r.Deviation() + r.Startup()) / r.Node.Base
}

// LargestOn returns the namespace/name of the pod with the largest excess; empty for the pod to place.
func (r *Resource) LargestOn(node fwk.NodeInfo) string {
	pods := node.GetPods()
	if r.PodIsLargest() || int(r.Pods.Largest) >= len(pods) {
		return ""
	}
	pod := pods[r.Pods.Largest].GetPod()
	return pod.Namespace + "/" + pod.Name
}

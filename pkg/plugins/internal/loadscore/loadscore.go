// Package loadscore is shared by plugins that score nodes by load. It keeps one view of the load per scheduling cycle, skips cycles
// without known load, and scores nodes without load. Memo keeps what any plugin computes once per cycle.
package loadscore

import (
	"context"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/descriptor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// Missing is the score of a node that gets the mean score of the others when scores are normalized.
const Missing int64 = -1

// Extensions implements PreScore and ScoreExtensions for a plugin that embeds it. It keeps the plugin's state of the scheduling
// cycle, of which Pod is the plugin's own part. PreScore need not be enabled. It is safe for concurrent use.
type Extensions[Pod any] struct {
	plugin      string
	reader      *reading.Reader
	model       *estimate.Model
	resources   []load.Resource
	missingLoad config.MissingLoad
	counters    descriptor.Counters
	states      *Memo[PreScoreState[Pod]]
	podState    func(state fwk.CycleState, pod *corev1.Pod) (*Pod, Scoring)
}

var (
	_ minor.PreScorePlugin  = &Extensions[NoPodState]{}
	_ minor.ScoreExtensions = &Extensions[NoPodState]{}
	_ minor.SignPlugin      = &Extensions[NoPodState]{}
	_ explain.LoadReader    = &Extensions[NoPodState]{}
)

// NoPodState is the Pod of plugins that need none.
type NoPodState = struct{}

// New returns the extensions of the named plugin, which scores by the load that it reads. All resources have the same window.
func New[Pod any](plugin string, in descriptor.Inputs, missingLoad config.MissingLoad) *Extensions[Pod] {
	return &Extensions[Pod]{
		plugin: plugin, reader: in.Reader, model: in.Reader.Model(load.CPU), resources: in.Reader.Request().Resources(),
		missingLoad: missingLoad, counters: in.Counters, states: NewMemo[PreScoreState[Pod]](plugin),
	}
}

func (x *Extensions[Pod]) Name() string { return x.plugin }

func (x *Extensions[Pod]) Reader() *reading.Reader { return x.reader }

// LoadLine implements explain.LoadReader for a plugin without a line.
func (x *Extensions[Pod]) LoadLine(state fwk.CycleState, node fwk.NodeInfo) explain.LoadLine {
	l := explain.LoadLine{Node: x.model.View(state).For(estimate.Stranger()).Estimate(node)}
	for r := range l.Node {
		l.Utilization[r] = l.Node[r].Utilization(0)
	}
	return l
}

// Scoring says when a pod's nodes are scored.
type Scoring int

const (
	// ByLoad scores nodes if the load of some node is known.
	ByLoad Scoring = iota
	// Always scores nodes without any load too.
	Always
	// Never skips the plugin for the pod.
	Never
)

// SetPodState makes PreScoreState.Pod hold the value that podState returns for the cycle and the pod to place.
func (x *Extensions[Pod]) SetPodState(podState func(state fwk.CycleState, pod *corev1.Pod) (*Pod, Scoring)) {
	x.podState = podState
}

// PreScoreState holds the inputs of all scores of one scheduling cycle.
type PreScoreState[Pod any] struct {
	View *estimate.View
	// PodUsage is what the pod to place will use.
	PodUsage podusage.Amounts
	// Pod is the plugin's own part; nil without SetPodState.
	Pod *Pod
	// Skip is set if no node's load is known, or the plugin is skipped for the pod. All nodes then score alike.
	Skip bool

	own     Attempt
	attempt *Attempt
}

// PreScoreState returns the state of the cycle. The first call in a cycle makes it, and counts the decision.
func (x *Extensions[Pod]) PreScoreState(state fwk.CycleState, pod *corev1.Pod) *PreScoreState[Pod] {
	if s := x.states.Lookup(state); s != nil {
		return s
	}
	view := x.model.View(state).For(pod)
	s := &PreScoreState[Pod]{View: view, PodUsage: view.Estimator().Estimate(pod)}
	s.attempt = x.states.Attempt(state, pod, &s.own)
	scoring := ByLoad
	if x.podState != nil {
		s.Pod, scoring = x.podState(state, pod)
	}
	unknown := scoring != Always && !slices.ContainsFunc(x.resources, view.Knows)
	s.Skip = unknown || scoring == Never
	s, first := x.states.Store(state, s)
	if first && !s.attempt.Counted.Swap(true) {
		x.counters.Decision(unknown)
	}
	return s
}

func (x *Extensions[Pod]) ExplainPodUsage(state fwk.CycleState, pod *corev1.Pod) (usages []explain.ExpectedUsage) {
	s := x.PreScoreState(state, pod)
	explanations := s.View.Estimator().Explain(pod)
	for _, r := range x.resources {
		usages = append(usages, explain.NewExpectedUsage(r, s.PodUsage[r], explanations[r]))
	}
	return usages
}

// PreScore skips scoring when no node's load is known: the profile's other plugins decide.
func (x *Extensions[Pod]) PreScore(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if x.PreScoreState(state, pod).Skip {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// SignPod implements minor.SignPlugin: scores depend on what the pod will use, and on its namespace: see estimate.View.For.
func (x *Extensions[Pod]) SignPod(_ context.Context, pod *corev1.Pod) ([]minor.SignFragment, *fwk.Status) {
	return []minor.SignFragment{{
		Key: "v1.Pod.Spec." + x.plugin + "()",
		Value: struct {
			Namespace string
			Usage     podusage.Amounts
		}{pod.Namespace, x.reader.PodUsage(pod)},
	}}, nil
}

// NodeScore rounds the score. If no resource is load.Fresh, it returns the score that missingLoad selects. A plugin of one resource
// passes its state twice.
func (x *Extensions[Pod]) NodeScore(s *PreScoreState[Pod], score float64, cpu, memory load.State) int64 {
	if replacement, ok := x.Replacement(s, cpu, memory); ok {
		return replacement
	}
	return rounded(score)
}

// Replacement returns the score that missingLoad selects: Missing or the lowest, or none if ok is false. The states are as in
// NodeScore.
func (x *Extensions[Pod]) Replacement(s *PreScoreState[Pod], cpu, memory load.State) (score int64, ok bool) {
	if stalest := min(cpu, memory); stalest != load.Fresh {
		x.counters.Fallback(&s.attempt.Fallbacks, stalest)
	}
	if max(cpu, memory) != load.Fresh {
		switch x.missingLoad {
		case config.MissingLoadNeutral:
			return Missing, true
		case config.MissingLoadLowest:
			return config.MinNodeScore, true
		}
	}
	return 0, false
}

// rounded rounds the score into the framework's range. NaN becomes the lowest score.
func rounded(score float64) int64 {
	switch {
	case score >= float64(config.MaxNodeScore):
		return config.MaxNodeScore
	case score > float64(config.MinNodeScore):
		return int64(math.Round(score))
	}
	return config.MinNodeScore
}

func (x *Extensions[Pod]) ScoreExtensions() minor.ScoreExtensions {
	if x.missingLoad == config.MissingLoadNeutral {
		return x
	}
	return nil
}

// NormalizeScore gives nodes without known load the mean score of the others, or the lowest if there are none.
func (x *Extensions[Pod]) NormalizeScore(
	_ context.Context, _ fwk.CycleState, _ *corev1.Pod, scores minor.NodeScoreList,
) *fwk.Status {
	var sum, known int64
	for _, n := range scores {
		if n.Score != Missing {
			sum += n.Score
			known++
		}
	}
	mean := config.MinNodeScore
	if known > 0 {
		mean = int64(math.Round(float64(sum) / float64(known)))
	}
	for i := range scores {
		if scores[i].Score == Missing {
			scores[i].Score = mean
		}
	}
	return nil
}

// Memo keeps one value per scheduling cycle, stored at any extension point by one of several goroutines. Clones of the
// CycleState that are made after Store, for nominated pods and preemption, share it. A lookup does not allocate. A Memo is safe for
// concurrent use; use NewMemo.
type Memo[T any] struct {
	key fwk.StateKey
	pin estimate.Pin[T]
	// attempts has those of pods of groups, by weak.Pointer[corev1.Pod].
	attempts sync.Map
}

// Attempt is an attempt to place a pod. It counts as one decision: the scheduler may try a pod of a group in many cycles, for each
// placement and for preemption.
type Attempt struct {
	Counted atomic.Bool
	descriptor.Fallbacks
}

// Attempt returns the attempt that the cycle is part of: the cycle's own, but for a pod of a group. Each attempt to place a group
// has its own pod objects.
func (m *Memo[T]) Attempt(state fwk.CycleState, pod *corev1.Pod, own *Attempt) *Attempt {
	if !minor.IsPodGroupCycle(state) {
		return own
	}
	if group, ok := state.(groupCycle); ok && group.first != nil {
		pod = group.first
	}
	key := weak.Make(pod)
	attempt, known := m.attempts.LoadOrStore(key, &Attempt{})
	if !known {
		runtime.AddCleanup(pod, func(key weak.Pointer[corev1.Pod]) { m.attempts.Delete(key) }, key)
	}
	return attempt.(*Attempt)
}

// groupCycle marks a group's cycle like those of its pods: estimates of hypothetical nodes must not be cached. It is part of the
// attempt to place the group's first pod.
type groupCycle struct {
	fwk.CycleState
	first *corev1.Pod
}

func (groupCycle) IsPodGroupSchedulingCycle() bool { return true }

// NewMemo returns a memo for a plugin. Make only one per plugin: its name is the key in CycleState.
func NewMemo[T any](plugin string) *Memo[T] { return &Memo[T]{key: fwk.StateKey(plugin)} }

// shared is a value as CycleState keeps it. Later clones share it.
type shared[T any] struct{ value *T }

func (s shared[T]) Clone() fwk.StateData { return s }

// Lookup returns the cycle's value, or nil.
func (m *Memo[T]) Lookup(state fwk.CycleState) *T {
	if value := m.pin.Get(state); value != nil {
		return value
	}
	return m.lookupShared(state)
}

// lookupShared is a separate function so that Lookup is inlined.
func (m *Memo[T]) lookupShared(state fwk.CycleState) *T {
	if data, err := state.Read(m.key); err == nil {
		return data.(shared[T]).value
	}
	return nil
}

// Store keeps the value for the cycle unless another goroutine was first. It returns the value that is kept, and whether
// it is the one passed.
func (m *Memo[T]) Store(state fwk.CycleState, value *T) (kept *T, first bool) {
	kept, first = m.pin.Set(state, value)
	if first {
		state.Write(m.key, shared[T]{kept})
	}
	return kept, first
}

// Packing scores nodes so that they fill up to a target and no further. It rises from target at a utilization of 0 to 100 at the
// target. From there it falls to target and on to 0 at a utilization of 100. Both arguments are in percent. The formula is that of
// Trimaran's TargetLoadPacking (Kubernetes KEP "Trimaran: Real Load Aware Scheduling").
func Packing(utilization, target float64) float64 {
	switch {
	case utilization <= target:
		return (100-target)*utilization/target + target
	case utilization <= 100:
		return target * (100 - utilization) / (100 - target)
	}
	return 0
}

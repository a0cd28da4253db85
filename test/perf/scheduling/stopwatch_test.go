package scheduling

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
)

const stopwatchName = "Stopwatch"

// stopwatch is a plugin of every profile. It measures each scheduling attempt exactly. The buckets of the scheduler's histograms
// double, so they hide a difference of a few percent.
type stopwatch struct {
	namespace string

	mu sync.Mutex
	// bound and skipped count pods of all namespaces that were bound, and that a plugin, by name, did not filter.
	bound   int
	skipped map[string]int
	// The fields below cover the namespace alone: the durations, the beginning of the first attempt, and the last binding.
	cycles, attempts []time.Duration
	first, last      moment
}

// moment is a time, and the processor time that the process has used by then.
type moment struct {
	at   time.Time
	used time.Duration
}

func now() (moment, error) {
	var r syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return moment{at: time.Now(), used: time.Duration(r.Utime.Nano() + r.Stime.Nano())}, err
}

var (
	_ minor.PreFilterPlugin = &stopwatch{}
	_ minor.ReservePlugin   = &stopwatch{}
	_ minor.PostBindPlugin  = &stopwatch{}
)

func newStopwatch(namespace string) *stopwatch {
	const room = 1 << 14 // more than the pods of any workload, so that append does not copy during the measurement
	return &stopwatch{
		namespace: namespace, skipped: map[string]int{}, cycles: make([]time.Duration, 0, room), attempts: make([]time.Duration, 0, room),
	}
}

func (s *stopwatch) new(context.Context, runtime.Object, minor.Handle) (minor.Plugin, error) {
	return s, nil
}

// Name implements minor.Plugin.
func (s *stopwatch) Name() string { return stopwatchName }

type lap struct{ began, reserved time.Time }

// Clone implements fwk.StateData.
func (l *lap) Clone() fwk.StateData { return l }

// PreFilter implements minor.PreFilterPlugin: the attempt begins.
func (s *stopwatch) PreFilter(
	_ context.Context,
	state fwk.CycleState,
	pod *corev1.Pod,
	_ []fwk.NodeInfo,
) (*minor.PreFilterResult, *fwk.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pod.Namespace == s.namespace && s.first.at.IsZero() {
		first, err := now()
		if err != nil {
			return nil, fwk.AsStatus(err)
		}
		s.first = first
	}
	state.Write(stopwatchName, &lap{began: time.Now()})
	return nil, nil
}

// PreFilterExtensions implements minor.PreFilterPlugin.
func (s *stopwatch) PreFilterExtensions() minor.PreFilterExtensions { return nil }

// Reserve implements minor.ReservePlugin: a node is chosen.
func (s *stopwatch) Reserve(_ context.Context, state fwk.CycleState, _ *corev1.Pod, _ string) *fwk.Status {
	l, err := state.Read(stopwatchName)
	if err != nil {
		return fwk.AsStatus(err)
	}
	l.(*lap).reserved = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for plugin := range state.GetSkipFilterPlugins() {
		s.skipped[plugin]++
	}
	return nil
}

// Unreserve implements minor.ReservePlugin.
func (s *stopwatch) Unreserve(context.Context, fwk.CycleState, *corev1.Pod, string) {}

// PostBind implements minor.PostBindPlugin: the pod is bound.
func (s *stopwatch) PostBind(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ string) {
	last, err := now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bound++
	l, missing := state.Read(stopwatchName)
	if err != nil || missing != nil || pod.Namespace != s.namespace {
		return
	}
	s.last = last
	began, reserved := l.(*lap).began, l.(*lap).reserved
	s.cycles, s.attempts = append(s.cycles, reserved.Sub(began)), append(s.attempts, last.at.Sub(began))
}

// counts returns the number of pods bound so far in all namespaces, and how many each plugin did not filter.
func (s *stopwatch) counts() (bound int, skipped map[string]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bound, maps.Clone(s.skipped)
}

// report reports the pods bound per second from the first attempt to the last binding. It reports the processor time of the whole
// process per pod, API server included. It also reports the durations of scheduling cycles, in which a node is chosen, and of whole
// attempts, binding included.
func (s *stopwatch) report(b *testing.B) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.attempts) == 0 {
		b.Error("no pod was bound")
		return
	}
	pods := float64(len(s.attempts))
	b.ReportMetric(pods/s.last.at.Sub(s.first.at).Seconds(), "pods/s")
	b.ReportMetric(milliseconds(s.last.used-s.first.used)/pods, "cpu-ms/pod")
	for name, durations := range map[string][]time.Duration{"cycle": s.cycles, "attempt": s.attempts} {
		slices.Sort(durations)
		total := time.Duration(0)
		for _, d := range durations {
			total += d
		}
		b.ReportMetric(milliseconds(total)/pods, name+"-mean-ms")
		b.ReportMetric(milliseconds(quantile(durations, 0.5)), name+"-p50-ms")
		b.ReportMetric(milliseconds(quantile(durations, 0.99)), name+"-p99-ms")
	}
}

// quantile returns the smallest of the sorted durations that is not exceeded by at least the share q of them.
func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func TestQuantile(t *testing.T) {
	for _, tc := range []struct {
		count int
		q     float64
		want  time.Duration
	}{
		{100, 0.99, 99}, // 99 of 1 … 100 do not exceed 99
		{100, 0.5, 50},
		{3, 0.5, 2},   // 1 is not exceeded by a third, 2 by two thirds
		{3, 0.99, 3},  // two thirds are not enough
		{1, 0.001, 1}, // there is but one
	} {
		sorted := make([]time.Duration, tc.count)
		for i := range sorted {
			sorted[i] = time.Duration(i + 1)
		}
		if got := quantile(sorted, tc.q); got != tc.want {
			t.Errorf("quantile %v of 1 to %d: %d, want %d", tc.q, tc.count, got, tc.want)
		}
	}
}

package shadow

import (
	"cmp"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
)

const (
	// MaxHours is how many hours are kept, the present one included.
	MaxHours = 24
	// maxWorkloads bounds the workloads that are told apart. Those seen later are counted as Others.
	maxWorkloads = 500
)

// Outcome is the result of one decision beside the one made.
type Outcome string

// The outcomes. A pod is skipped if the share of the core is spent, no load is known, or the decision fails.
const (
	Same      Outcome = "Same"
	Elsewhere Outcome = "Elsewhere"
	Nowhere   Outcome = "Nowhere"
	Skipped   Outcome = "Skipped"
)

// Workload is the namespace and the name of a pod's workload. The name is empty for a pod without one.
type Workload = learned.Workload

// Others stands for all workloads beyond the bound.
var Others = Workload{Name: "other"}

// Counts are the results of some pods.
type Counts struct {
	// Pods were evaluated. Elsewhere of them would be on another node, and Nowhere would have waited.
	Pods      int `json:"pods"`
	Elsewhere int `json:"elsewhere"`
	Nowhere   int `json:"nowhere"`
	// Skipped pods were not evaluated, and are not among Pods.
	Skipped int `json:"skipped"`
	// HotMinutesMade are the minutes that pods were on hot nodes. HotMinutesPlimsoll are those predicted for the nodes that
	// Plimsoll would have chosen.
	HotMinutesMade     int `json:"hotMinutesMade"`
	HotMinutesPlimsoll int `json:"hotMinutesPlimsoll"`
}

func (c *Counts) add(o *Counts) {
	c.Pods += o.Pods
	c.Elsewhere += o.Elsewhere
	c.Nowhere += o.Nowhere
	c.Skipped += o.Skipped
	c.HotMinutesMade += o.HotMinutesMade
	c.HotMinutesPlimsoll += o.HotMinutesPlimsoll
}

// WorkloadCounts are the results of one workload.
type WorkloadCounts struct {
	Namespace string `json:"namespace"`
	Workload  string `json:"workload"`
	Counts
}

// Report is what was counted in the last hours.
type Report struct {
	// From is the start of the first hour, or of the shadow.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// CoreShare is the share of a core that was spent since the start of the shadow.
	CoreShare float64 `json:"coreShareRatio"`
	Total     Counts  `json:"total"`
	// Workloads have the most hot minutes made first.
	Workloads []WorkloadCounts `json:"workloads"`
}

// Tally counts results by workload and hour, and in metrics. It is safe for concurrent use. Use NewTally.
type Tally struct {
	clock      clock.PassiveClock
	started    time.Time
	decisions  *metrics.CounterVec
	hotMinutes *metrics.CounterVec
	work       *metrics.Counter

	mu    sync.Mutex
	known map[Workload]struct{}
	hours [MaxHours]hour
	spent time.Duration
}

// hour holds the counts from its start on.
type hour struct {
	start  time.Time
	counts map[Workload]*Counts
}

// NewTally returns a tally whose metrics are registered by register.
func NewTally(c clock.PassiveClock, register func(...metrics.Registerable)) *Tally {
	t := &Tally{clock: c, started: c.Now(), known: map[Workload]struct{}{}}
	t.decisions = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "plimsoll_shadow_decisions_total",
		Help: "Pods of other schedulers by the node that Plimsoll would have chosen: Same, Elsewhere or Nowhere. Skipped pods " +
			"were not evaluated.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"namespace", "workload", "outcome"})
	t.hotMinutes = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "plimsoll_shadow_hot_minutes_total",
		Help: "Minutes that pods were on nodes above 80 % CPU in their first hour (Made). Plimsoll are those predicted for the " +
			"nodes that it would have chosen.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"namespace", "workload", "choice"})
	t.work = metrics.NewCounter(&metrics.CounterOpts{
		Name: "plimsoll_shadow_work_seconds_total", Help: "Time spent on decisions and samples of the shadow.",
		StabilityLevel: metrics.ALPHA,
	})
	register(t.decisions, t.hotMinutes, t.work)
	return t
}

// workloadOf returns the pod's workload, or Others beyond the bound.
func (t *Tally) workloadOf(pod *corev1.Pod) Workload {
	of, ok := learned.OwnerOf(pod)
	if !ok {
		of = Workload{Namespace: pod.Namespace}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.known[of]; !ok && len(t.known) == maxWorkloads {
		return Others
	}
	t.known[of] = struct{}{}
	return of
}

func (t *Tally) decided(of Workload, o Outcome) {
	t.decisions.WithLabelValues(of.Namespace, of.Name, string(o)).Inc()
	counts := Counts{Pods: 1}
	switch o {
	case Elsewhere:
		counts.Elsewhere = 1
	case Nowhere:
		counts.Nowhere = 1
	case Skipped:
		counts = Counts{Skipped: 1}
	}
	t.count(of, &counts)
}

func (t *Tally) sampled(of Workload, madeHot, plimsollHot bool) {
	var counts Counts
	if madeHot {
		counts.HotMinutesMade = 1
		t.hotMinutes.WithLabelValues(of.Namespace, of.Name, "Made").Inc()
	}
	if plimsollHot {
		counts.HotMinutesPlimsoll = 1
		t.hotMinutes.WithLabelValues(of.Namespace, of.Name, "Plimsoll").Inc()
	}
	if madeHot || plimsollHot {
		t.count(of, &counts)
	}
}

func (t *Tally) worked(d time.Duration) {
	t.work.Add(d.Seconds())
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spent += d
}

func (t *Tally) count(of Workload, c *Counts) {
	start := t.clock.Now().Truncate(time.Hour)
	t.mu.Lock()
	defer t.mu.Unlock()
	h := &t.hours[start.Unix()/int64(time.Hour/time.Second)%MaxHours]
	if !h.start.Equal(start) {
		*h = hour{start: start, counts: map[Workload]*Counts{}}
	}
	if h.counts[of] == nil {
		h.counts[of] = &Counts{}
	}
	h.counts[of].add(c)
}

// Report returns what was counted in the given number of hours, of which the present one is the last.
func (t *Tally) Report(hours int) *Report {
	now := t.clock.Now()
	from := now.Truncate(time.Hour).Add(-time.Duration(hours-1) * time.Hour)
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &Report{From: from, To: now, Workloads: []WorkloadCounts{}}
	if t.started.After(from) {
		r.From = t.started
	}
	if up := now.Sub(t.started); up > 0 {
		r.CoreShare = t.spent.Seconds() / up.Seconds()
	}
	sums := map[Workload]*Counts{}
	for i := range t.hours {
		if t.hours[i].start.Before(from) {
			continue
		}
		for of, c := range t.hours[i].counts {
			if sums[of] == nil {
				sums[of] = &Counts{}
			}
			sums[of].add(c)
			r.Total.add(c)
		}
	}
	for of, c := range sums {
		r.Workloads = append(r.Workloads, WorkloadCounts{Namespace: of.Namespace, Workload: of.Name, Counts: *c})
	}
	slices.SortFunc(r.Workloads, func(a, b WorkloadCounts) int {
		return cmp.Or(cmp.Compare(b.HotMinutesMade, a.HotMinutesMade), cmp.Compare(b.Pods, a.Pods),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Workload, b.Workload))
	})
	return r
}

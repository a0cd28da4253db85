package plan

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
)

const (
	// After a failed move, the workload is barred for firstBar. Each further failure doubles the bar, up to longestBar.
	firstBar   = 15 * time.Minute
	longestBar = 6 * time.Hour
	// remembered is how long a workload's last move counts as disruption.
	remembered = time.Hour
)

// History records earlier looks and moves. The zero History is ready, and must be used by one goroutine at a time.
type History struct {
	nodes     map[string]*nodeHistory
	workloads map[string]*Workload // by Move.Workload
	// moves are the moves of the last hour.
	moves []madeMove
	// underWay are moves without a ready replacement, by the evicted pod's UID.
	underWay map[types.UID]*Moving
	// refused has the pods whose eviction was refused, and until when they stay.
	refused map[types.UID]time.Time
	// tried has the pods whose simulation found no good move, and until when others are tried first.
	tried map[types.UID]time.Time
	// records are the moves that ended, oldest first.
	records []Record
	breaker breaker
	heat    heat
}

// madeMove counts for the limits of an hour.
type madeMove struct {
	at        time.Time
	namespace string
}

// Moving is a move under way.
type Moving struct {
	Move
	Began time.Time `json:"began"`
	// Newest is when the controller's youngest pod was created before the move. Known are the UIDs of its pods created at that time.
	Newest time.Time   `json:"newest"`
	Known  []types.UID `json:"known,omitempty"`
	// Controlled says that the number of replicas was known when the move began.
	Controlled bool `json:"controlled,omitempty"`
	// Ending is how long after Began the evicted pod was still terminating without a replacement. It starts as the grace period.
	Ending time.Duration `json:"ending,omitempty"`
	// NodeMoved and WorkloadMoved are nodeHistory.moved and Workload.Moved before the move. cancel restores them.
	NodeMoved     time.Time `json:"nodeMoved,omitzero"`
	WorkloadMoved time.Time `json:"workloadMoved,omitzero"`
	// replacement is the pod in place of the moved one, as it was found last; nil if there was none.
	replacement *corev1.Pod
}

// isPlaced reports whether the replacement has a node.
func (m *Moving) isPlaced() bool { return m.replacement != nil && m.replacement.Spec.NodeName != "" }

// Outcome says how a move ended.
type Outcome string

// The outcomes of moves. Returned and NotReady are failures.
const (
	// Landed is a replacement that is ready on another node, whose load with the pod is not above the line, as planned.
	Landed Outcome = "Landed"
	// LandedHot is a replacement that is ready on another node, which is above its line.
	LandedHot Outcome = "LandedHot"
	// LandedUnknown is a replacement that is ready on another node, whose load is unknown.
	LandedUnknown Outcome = "LandedUnknown"
	// Returned is a replacement on the source.
	Returned Outcome = "Returned"
	// NotReady is a replacement that was missing, or not ready in time.
	NotReady Outcome = "NotReady"
	// ScaledDown is a move whose controller wants no replacement any more.
	ScaledDown Outcome = "ScaledDown"
	// Withdrawn is a move whose pod was never evicted.
	Withdrawn Outcome = "Withdrawn"
)

// Outcomes returns all outcomes.
func Outcomes() []Outcome {
	return []Outcome{Landed, LandedHot, LandedUnknown, Returned, NotReady, ScaledDown, Withdrawn}
}

// Failed reports whether the move failed: it bars the workload, and counts for the circuit breaker. LandedHot did not fail: pods of
// others may have made the node hot, and no tenant may stop the moves of others.
func (o Outcome) Failed() bool { return o == Returned || o == NotReady }

// landed reports whether a replacement is ready on another node. A landing resets the failure count.
func (o Outcome) landed() bool { return o == Landed || o == LandedHot || o == LandedUnknown }

// Record is a move that ended.
type Record struct {
	Moving
	Ended   time.Time `json:"ended"`
	Outcome Outcome   `json:"outcome"`
	// Replacement is the pod in place of the moved one, on Node; empty if there is none.
	Replacement    string    `json:"replacement,omitempty"`
	ReplacementUID types.UID `json:"replacementUID,omitempty"`
	Node           string    `json:"node,omitempty"`
}

// replacedBy notes the replacement of the moved pod. It may be nil, and may have no node yet.
func (r *Record) replacedBy(replacement *corev1.Pod) {
	if replacement != nil {
		r.Replacement, r.ReplacementUID, r.Node = replacement.Name, replacement.UID, replacement.Spec.NodeName
	}
}

// Problem says why the move failed or landed hot; empty if it did neither.
func (r *Record) Problem() string {
	switch {
	case r.Outcome.Failed():
		return fmt.Sprintf("its replacement is not ready elsewhere (%s)", r.Outcome)
	case r.Outcome == LandedHot:
		return fmt.Sprintf("its replacement is on node %s, which is above its line (%s)", r.Node, r.Outcome)
	}
	return ""
}

// breaker ends a series of failures.
type breaker struct {
	// OpenUntil is when pods may move again.
	OpenUntil time.Time `json:"openUntil"`
	// Namespaces are those whose own moves failed, and until when their pods stay.
	Namespaces map[string]time.Time `json:"namespaces,omitempty"`
}

type nodeHistory struct {
	// above counts the consecutive looks above the line, of measurements up to seen.
	above int
	hot   bool
	seen  time.Time
	// moved is when the last moved pod was on the node.
	moved time.Time
	// usual is the mean excess of about usualSpan, and apart what the sample at the time sampled was apart from usual. Samples have
	// no gap from the time series on.
	usual, apart    float64
	series, sampled time.Time
}

const (
	// sampleInterval is the time between samples, or the load's window if that is longer: windows that overlap are alike.
	sampleInterval = 5 * time.Minute
	usualSpan      = time.Hour
	// enoughPairs tell an autocorrelation. Each counts for about heatMemory.
	enoughPairs = 100
	heatMemory  = 24 * time.Hour
	// lasting times Refreshes above the line show that heat lasts, whatever is expected.
	lasting = 3
)

// heat sums up over all nodes how pairs of samples in a row vary together, and how the first of each pair varies. Sums are as of
// end.
type heat struct {
	covariance, variance, pairs float64
	end                         time.Time
}

// fade lets earlier pairs count less, by the time between the newest measurements.
func (h *heat) fade(nodes []LoadedNode) {
	end := h.end
	for i := range nodes {
		if n := &nodes[i]; n.Known && n.End.After(end) {
			end = n.End
		}
	}
	kept := math.Exp(-end.Sub(h.end).Hours() / heatMemory.Hours())
	*h = heat{h.covariance * kept, h.variance * kept, h.pairs * kept, end}
}

// sample notes a node's excess. Until a node's usual excess is that of usualSpan, its samples are no pairs: they would seem to vary
// independently.
func (h *heat) sample(of *nodeHistory, n *LoadedNode, excess float64) {
	interval, since := max(sampleInterval, n.window), n.End.Sub(of.sampled)
	if since < interval {
		return
	}
	apart := excess - of.usual
	if since >= 2*interval { // as is the first sample, which so becomes the usual excess
		of.series = n.End
	} else if of.sampled.Sub(of.series) >= usualSpan {
		h.covariance += apart * of.apart
		h.variance += of.apart * of.apart
		h.pairs++
	}
	of.usual += apart * (1 - math.Exp(-since.Hours()/usualSpan.Hours()))
	of.apart, of.sampled = apart, n.End
}

// expected is the excess to expect a sample later, by the autocorrelation. Heat that is noise passes without a move.
func (h *heat) expected(of *nodeHistory, excess float64) float64 {
	lasts := 1.0 // while nothing is known
	if h.pairs >= enoughPairs && h.variance > 0 {
		lasts = min(max(h.covariance/h.variance, 0), 1)
	}
	return of.usual + lasts*(excess-of.usual)
}

// Workload has a workload's last move, and the end of its bar.
type Workload struct {
	Moved       time.Time `json:"moved"`
	BarredUntil time.Time `json:"barredUntil"`
	Failures    int       `json:"failures,omitempty"`
}

// Observe counts the nodes' looks above their lines. Call it once per refresh. A measurement counts once. A node whose load is
// expected to fall so far that it cools does not become hot.
func (h *History) Observe(nodes []LoadedNode, c *api.Configuration) {
	h.heat.fade(nodes)
	present := make(map[string]bool, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		present[n.Name] = true
		of := h.nodeOf(n.Name)
		_, excess := n.Excess()
		if n.Known {
			h.heat.sample(of, n, excess)
		}
		switch cooled := -c.CooledPercent / 100; {
		case !n.Known || excess < cooled:
			of.above, of.hot = 0, false
		case excess > 0:
			if n.End.After(of.seen) {
				of.above++
			}
			stays := of.above >= lasting*c.Refreshes || h.heat.expected(of, excess) > cooled
			of.hot = of.hot || of.above >= c.Refreshes && stays
		default: // above what cools a node, but not above the line
			of.above = 0
		}
		of.seen = n.End
	}
	maps.DeleteFunc(h.nodes, func(name string, _ *nodeHistory) bool { return !present[name] })
}

// Begin records a move, before it is made.
func (h *History) Begin(m *Move, now time.Time) {
	if h.underWay == nil {
		h.underWay = map[types.UID]*Moving{}
	}
	h.underWay[m.UID] = &Moving{
		Move: *m, Began: now, NodeMoved: h.nodeOf(m.From).moved, WorkloadMoved: h.workloadOf(m.Workload).Moved,
	}
	h.moves = append(h.moves, madeMove{now, m.Namespace})
	h.nodeOf(m.From).moved = now
	h.workloadOf(m.Workload).Moved = now
}

// Place notes the replacement of a moved pod, which may have no node yet.
func (h *History) Place(pod types.UID, replacement *corev1.Pod) {
	if m, ok := h.underWay[pod]; ok {
		m.replacement = replacement
	}
}

// End records how the move of the pod ended. The replacement is ready or back on the source; nil if none was ready in time.
func (h *History) End(
	ctx context.Context, cluster Cluster, c *api.Configuration, pod types.UID, replacement *corev1.Pod,
) Outcome {
	m, ok := h.underWay[pod]
	if !ok {
		return ""
	}
	m.replacement = replacement
	r := &Record{Moving: *m, Ended: cluster.Now, Outcome: NotReady}
	if r.replacedBy(replacement); replacement != nil {
		h.land(ctx, cluster, c, r)
	}
	h.end(r, c)
	return r.Outcome
}

// land sets the outcome of a move whose replacement is ready, or back on its source.
func (h *History) land(ctx context.Context, cluster Cluster, c *api.Configuration, r *Record) {
	if r.Outcome = Returned; r.Node == r.From {
		return
	}
	n, err := h.lookWith(ctx, cluster, c, r)
	switch {
	case err != nil || !n.Known:
		r.Outcome = LandedUnknown
	case n.crowding() > 0:
		r.Outcome = LandedHot
	default:
		r.Outcome = Landed
	}
}

// lookWith compares the record's node with its line. Only bound pods count, because a pod without a node may still go elsewhere.
// Pending usage counts as in plans, and so does what replacements use beyond their expected usage.
func (h *History) lookWith(ctx context.Context, cluster Cluster, c *api.Configuration, r *Record) (n LoadedNode, err error) {
	info, err := cluster.Scheduler.NodeInfo(ctx, r.Node)
	if err != nil {
		return n, err
	}
	if !hasPod(info, r.ReplacementUID) { // a watch may be late
		late := *r.replacement
		late.Name += "-Late" // the moved pod of a StatefulSet has the same name
		if err := cluster.Scheduler.Add(&late); err != nil {
			return n, err
		}
		defer func() { _ = cluster.Scheduler.Remove(&late) }() // it was added
		if info, err = cluster.Scheduler.NodeInfo(ctx, r.Node); err != nil {
			return n, err
		}
	}
	l := newLooker(cluster.Load, c)
	n = l.node(info)
	n.add(l.unmeasured(info, h.beyond()))
	return n, nil
}

// beyond returns what replacements use beyond their expected usage, by UID, for moves that landed or are under way.
func (h *History) beyond() map[types.UID]podusage.Amounts {
	beyond := map[types.UID]podusage.Amounts{}
	for _, m := range h.underWay {
		if m.replacement != nil {
			beyond[m.replacement.UID] = m.Beyond
		}
	}
	for i := range h.records {
		if r := &h.records[i]; r.Outcome.landed() {
			beyond[r.ReplacementUID] = r.Beyond
		}
	}
	return beyond
}

// podsUnderWay returns the evicted pods of moves under way, and their replacements. Callers count each pair as one pod.
func (h *History) podsUnderWay() map[types.UID]bool {
	pods := map[types.UID]bool{}
	for _, m := range h.underWay {
		if pods[m.UID] = true; m.replacement != nil {
			pods[m.replacement.UID] = true
		}
	}
	return pods
}

func (h *History) end(r *Record, c *api.Configuration) {
	r.Known, r.replacement, r.NodeMoved, r.WorkloadMoved = nil, nil, time.Time{}, time.Time{} // they are of no use any more
	h.records = append(h.records, *r)
	h.records = h.records[max(0, len(h.records)-maxRecords):]
	if r.Outcome == Withdrawn {
		h.cancel(r.UID) // nothing was evicted: it may be tried again
		return
	}
	delete(h.underWay, r.UID)
	w := h.workloadOf(r.Workload)
	if r.Outcome.landed() {
		w.Failures = 0
	}
	if !r.Outcome.Failed() {
		return
	}
	w.BarredUntil = r.Ended.Add(min(firstBar<<min(w.Failures, 10), longestBar))
	w.Failures++
	h.count(r, c)
}

func (h *History) cancel(pod types.UID) {
	m, ok := h.underWay[pod]
	if !ok {
		return
	}
	delete(h.underWay, pod)
	h.nodeOf(m.From).moved, h.workloadOf(m.Workload).Moved = m.NodeMoved, m.WorkloadMoved
	if i := slices.IndexFunc(h.moves, func(made madeMove) bool { // the saved state has whole seconds
		return made.namespace == m.Namespace && made.at.Unix() == m.Began.Unix()
	}); i >= 0 {
		h.moves = slices.Delete(h.moves, i, i+1)
	}
}

func (h *History) refuse(pod types.UID, now time.Time) { noteUntil(&h.refused, pod, now.Add(firstBar)) }

func noteUntil[K comparable](notes *map[K]time.Time, key K, until time.Time) {
	if *notes == nil {
		*notes = map[K]time.Time{}
	}
	(*notes)[key] = until
}

// count counts a failure for the circuit breaker. Failures of one namespace stop only moves of its pods, because its tenant can
// cause them. After the breaker was open, only failures of two namespaces open it again.
func (h *History) count(r *Record, c *api.Configuration) {
	until := r.Ended.Add(c.BreakerDuration.Duration)
	if len(h.failures(r.Namespace)) >= c.BreakerFailures {
		noteUntil(&h.breaker.Namespaces, r.Namespace, until)
	}
	all := h.failures("")
	if len(all) >= c.BreakerFailures && slices.ContainsFunc(all, func(other *Record) bool {
		return other.Namespace != r.Namespace && other.Ended.After(h.breaker.OpenUntil)
	}) {
		h.breaker.OpenUntil = until
	}
}

// StoppedBy returns the reason that stops all moves now, if the configuration or the circuit breaker does.
func (h *History) StoppedBy(now time.Time, c *api.Configuration) (stop Stop, why string) {
	switch {
	case c.Paused:
		return Paused, "the configuration has paused: true; write false to go on"
	case !c.Open(now):
		return OutsideWindow, "no window is open; the next one opens at " + c.NextOpening(now).UTC().Format(time.RFC3339)
	case now.Before(h.breaker.OpenUntil):
		return BreakerOpen, "moves failed one after the other; they go on at " + h.breaker.OpenUntil.UTC().Format(time.RFC3339)
	}
	return "", ""
}

// failures returns the moves that failed since one landed: of a namespace, or of all if it is empty.
func (h *History) failures(namespace string) (failures []*Record) {
	for i := range slices.Backward(h.records) {
		r := &h.records[i]
		switch {
		case namespace != "" && r.Namespace != namespace:
		case r.Outcome.landed():
			return failures
		case r.Outcome.Failed():
			failures = append(failures, r)
		}
	}
	return failures
}

func (h *History) nodeOf(name string) *nodeHistory { return entryOf(&h.nodes, name) }

func (h *History) workloadOf(name string) *Workload { return entryOf(&h.workloads, name) }

// entryOf returns the entry of a name. It adds a missing one.
func entryOf[T any](entries *map[string]*T, name string) *T {
	if *entries == nil {
		*entries = map[string]*T{}
	}
	if (*entries)[name] == nil {
		(*entries)[name] = new(T)
	}
	return (*entries)[name]
}

func (h *History) forget(now time.Time) {
	h.moves = slices.DeleteFunc(h.moves, func(made madeMove) bool { return now.Sub(made.at) >= time.Hour })
	for _, pods := range []map[types.UID]time.Time{h.refused, h.tried} {
		maps.DeleteFunc(pods, func(_ types.UID, until time.Time) bool { return !now.Before(until) })
	}
	maps.DeleteFunc(h.breaker.Namespaces, func(_ string, until time.Time) bool { return !now.Before(until) })
	maps.DeleteFunc(h.workloads, func(_ string, w *Workload) bool { return now.Sub(w.Moved) >= 2*longestBar })
}

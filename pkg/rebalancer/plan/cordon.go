package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

// CordonAnnotation is on each node that the rebalancer cordoned, with the time. It uncordons no node without it.
const CordonAnnotation = "rebalancer.plimsoll.io/cordoned"

const (
	// longestEmptying is how long a node may take until it is empty.
	longestEmptying = time.Hour
	// uncordonInterval is the time between two nodes that are uncordoned to make room, and until a failure is told again.
	uncordonInterval = time.Minute
)

// Cordon is a node that the rebalancer cordoned. It is saved before the node is.
type Cordon struct {
	Node  string    `json:"node"`
	UID   types.UID `json:"uid"`
	Began time.Time `json:"began"`
	// Emptied is when the last pod had left; zero until then.
	Emptied time.Time `json:"emptied"`
	// Ends says why the node must be uncordoned; empty if it need not be.
	Ends string `json:"ends,omitempty"`
	// failed is when it could not be uncordoned last, as far as that was told.
	failed time.Time
	// since is Began, or when this process first read it if that is earlier. Began itself marks the node.
	since time.Time
	// dropped is when this process dropped the cordon.
	dropped time.Time
}

// Value is that of the CordonAnnotation.
func (c *Cordon) Value() string { return c.Began.UTC().Format(time.RFC3339) }

// holds reports whether the node is still cordoned by this cordon. The node may be nil.
func (c *Cordon) holds(node *corev1.Node) bool {
	return c.isOf(node) && node.Spec.Unschedulable && node.Annotations[CordonAnnotation] == c.Value()
}

func (c *Cordon) isOf(node *corev1.Node) bool { return node != nil && node.UID == c.UID }

// SessionCordon is a node that a session cordoned, and kept empty or did not finish.
type SessionCordon struct {
	Node string
	// Since is the value of the CordonAnnotation.
	Since string
	// Pods is the number of pods that would have to move.
	Pods int
}

// sessionCordons returns the nodes with a CordonAnnotation that neither this process nor the saved state knows. Sessions save no
// state: one that was killed leaves only the annotation, which is written together with the cordon.
func (e *Executor) sessionCordons(ctx context.Context) (found []SessionCordon, err error) {
	cluster, err := e.World.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	infos, err := cluster.Scheduler.NodeInfos(ctx)
	if err != nil {
		return nil, err
	}
	now := e.Clock.Now()
	known := slices.DeleteFunc(slices.Clone(e.history.dropped), func(c *Cordon) bool { return now.Sub(c.dropped) >= unanswered })
	known = slices.Concat(known, e.history.cordons, e.history.session) // a watch may be late
	for _, info := range infos {
		node := info.Node()
		since, ok := node.Annotations[CordonAnnotation]
		if !ok || !node.Spec.Unschedulable || slices.ContainsFunc(known, func(c *Cordon) bool { return c.holds(node) }) {
			continue
		}
		found = append(found, SessionCordon{node.Name, since, podsOn(info)})
	}
	slices.SortFunc(found, func(a, b SessionCordon) int { return cmp.Compare(a.Node, b.Node) })
	return found, nil
}

// podsOn counts the pods of the node that do not leave with it.
func podsOn(info fwk.NodeInfo) (n int) {
	for _, of := range info.GetPods() {
		if pod := of.GetPod(); sim.LeavesWithNode(pod) == "" && !podusage.HasEnded(pod) {
			n++
		}
	}
	return n
}

// Cordoner cordons nodes.
type Cordoner interface {
	// Node reads the node from the API server. It returns nil if there is no such node.
	Node(ctx context.Context, name string) (*corev1.Node, error)
	// SetCordon cordons the node with this value of CordonAnnotation, and uncordons it if the value is empty. It returns false if the
	// node has changed, or is gone.
	SetCordon(ctx context.Context, node *corev1.Node, value string) (bool, error)
}

// Freed says what happened to a node that is emptied.
type Freed string

// What happens to a node that is emptied.
const (
	// NodeCordoned is before the first eviction.
	NodeCordoned Freed = "NodeCordoned"
	NodeEmptied  Freed = "NodeEmptied"
	// NodeUncordoned is a node that takes pods again.
	NodeUncordoned Freed = "NodeUncordoned"
	// CordonTakenOver is a node that somebody else uncordoned, or whose annotation is gone. It is left alone.
	CordonTakenOver Freed = "CordonTakenOver"
	UncordonFailed  Freed = "UncordonFailed"
)

// AllFreed returns all that can happen to a node that is emptied.
func AllFreed() []Freed {
	return []Freed{NodeCordoned, NodeEmptied, NodeUncordoned, CordonTakenOver, UncordonFailed}
}

// own returns the cordons of this process.
func (h *History) own() *[]*Cordon {
	if h.inSession {
		return &h.session
	}
	return &h.cordons
}

// Cordons returns the nodes that this process cordoned, oldest first.
func (h *History) Cordons() []*Cordon { return slices.Clone(*h.own()) }

// emptying returns the node that is being emptied; nil if none is.
func (h *History) emptying() *Cordon {
	own := *h.own()
	if i := slices.IndexFunc(own, func(c *Cordon) bool { return c.Emptied.IsZero() }); i >= 0 {
		return own[i]
	}
	return nil
}

// empties reports whether any process empties the node now.
func (h *History) empties(node string) bool {
	is := func(c *Cordon) bool { return c.Node == node && c.Emptied.IsZero() }
	return slices.ContainsFunc(h.cordons, is) || slices.ContainsFunc(h.session, is)
}

// lastEmptied returns the node that was emptied last; nil if there is none. For a minute, it skips nodes after a failure.
func (h *History) lastEmptied(now time.Time) (last *Cordon) {
	for _, c := range *h.own() {
		if !c.Emptied.IsZero() && now.Sub(c.failed) >= uncordonInterval && (last == nil || c.Emptied.After(last.Emptied)) {
			last = c
		}
	}
	return last
}

// BeginEmptying records a node before it is cordoned.
func (h *History) BeginEmptying(node *corev1.Node, now time.Time) *Cordon {
	c := &Cordon{Node: node.Name, UID: node.UID, Began: now, since: now}
	*h.own() = append(*h.own(), c)
	return c
}

// EndEmptying records that the node is empty.
func (h *History) EndEmptying(c *Cordon, now time.Time) { c.Emptied, h.freed = now, now }

// Drop forgets a node that is cordoned no more.
func (h *History) Drop(c *Cordon, now time.Time) {
	*h.own() = slices.DeleteFunc(*h.own(), func(other *Cordon) bool { return other == c })
	h.freed, c.dropped = now, now
	h.dropped = append(slices.DeleteFunc(h.dropped, func(c *Cordon) bool { return now.Sub(c.dropped) >= unanswered }), c)
}

// FreeStep is what to do now about nodes to empty. At most one of Begin, Move, Emptied and Uncordon is set.
type FreeStep struct {
	// Begin is the node to cordon.
	Begin string
	// Move is the next one of the node that is being emptied. Emptied is that node once it is empty.
	Move    *Move
	Emptied *Cordon
	// Uncordon is the node to uncordon, for the reason Why.
	Uncordon *Cordon
	Why      string
}

// NextFree returns what to do about nodes to empty. stops says why no pod may move; empty if pods may. While busy, no move begins.
func (h *History) NextFree(f *Freeing, stops string, busy bool) FreeStep {
	c, why := h.emptying(), cmp.Or(f.Ends, stops)
	switch {
	case c != nil && why != "":
		return FreeStep{Uncordon: c, Why: why}
	case c == nil && f.Uncordon != nil:
		return FreeStep{Uncordon: f.Uncordon, Why: f.Ends}
	case busy || stops != "":
	case c == nil:
		return FreeStep{Begin: f.Node}
	case f.Emptied:
		return FreeStep{Emptied: c}
	case len(f.Moves) > 0:
		return FreeStep{Move: &f.Moves[0]}
	}
	return FreeStep{}
}

// failEmptying ends the emptying of the move's node by any process, because the move has failed.
func (h *History) failEmptying(r *Record) {
	for _, c := range slices.Concat(h.cordons, h.session) {
		if c.Emptied.IsZero() && c.Node == r.From {
			c.Ends = cmp.Or(c.Ends, fmt.Sprintf("pod %s/%s was moved, but %s", r.Namespace, r.Pod, r.Failure()))
		}
	}
}

// free makes the next step of the node that is being emptied, begins another one, or uncordons one.
func (e *Executor) free(ctx context.Context, s *Status) error {
	if e.Nodes == nil {
		return nil
	}
	holds, err := e.checkCordons(ctx)
	if err != nil {
		return err
	}
	f, c := s.Plan.Free, e.history.emptying()
	switch {
	case !e.Config.Frees():
		for _, c := range slices.Backward(e.history.Cordons()) {
			err = cmp.Or(err, e.uncordon(ctx, c, "no node is emptied any more: the goal Free is off, or the mode is not Evict"))
		}
		return err
	case f == nil || e.plan == nil: // the plan is older than the goal, or than a cordon that is gone
		return nil
	}
	stops := cmp.Or(s.Why, e.unconfirmed(cmp.Or(f.Emptying, f.Node), f.Moves))
	step := e.history.NextFree(f, stops, s.Began != nil || c != nil && !holds[c]) // a node without the cordon may still get it
	switch {
	case step.Uncordon != nil:
		return e.uncordon(ctx, step.Uncordon, step.Why)
	case step.Emptied != nil:
		return e.endEmptying(ctx, step.Emptied)
	case step.Move != nil:
		s.Began, err = e.move(ctx, step.Move)
	case step.Begin != "":
		err = e.beginEmptying(ctx, s)
	}
	return err
}

// unconfirmed says what of the emptying was not confirmed; empty if all was.
func (e *Executor) unconfirmed(node string, moves []Move) string {
	if e.Confirmed == nil {
		return ""
	}
	if node != e.Confirmed.Node {
		return "node " + node + " was not confirmed"
	}
	for i := range moves {
		m := &moves[i]
		if !slices.ContainsFunc(e.Confirmed.Moves, func(confirmed Move) bool { return confirmed.UID == m.UID }) {
			return "pod " + m.Namespace + "/" + m.Pod + " was not confirmed"
		}
	}
	return ""
}

// endEmptying records that the node is empty, and saves that.
func (e *Executor) endEmptying(ctx context.Context, c *Cordon) error {
	e.history.EndEmptying(c, e.Clock.Now())
	if err := e.save(ctx); err != nil {
		return err
	}
	why := "All of its pods were moved. It stays cordoned"
	if !e.Session {
		why += " until the cluster needs room. Before maintenance, remove its annotation " + CordonAnnotation
	}
	e.Observer.Freed(c, NodeEmptied, why)
	return nil
}

// checkCordons drops cordons that no longer hold, and returns the others.
func (e *Executor) checkCordons(ctx context.Context) (map[*Cordon]bool, error) {
	own := e.history.Cordons()
	if len(own) == 0 {
		return nil, nil
	}
	cluster, err := e.World.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	holds, now := map[*Cordon]bool{}, e.Clock.Now()
	for _, c := range own {
		if info, err := cluster.Scheduler.NodeInfo(ctx, c.Node); err == nil && c.holds(info.Node()) {
			holds[c] = true
			continue
		}
		node, err := e.Nodes.Node(ctx, c.Node) // a watch may be late
		if err != nil {
			return nil, fmt.Errorf("read node %s: %w", c.Node, err)
		}
		holds[c] = c.holds(node)
		if holds[c] || c.isOf(node) && now.Sub(c.since) < unanswered {
			continue
		}
		why := "It is not cordoned by the rebalancer any more, so it is left alone"
		if !c.isOf(node) {
			why = "The node is gone"
		}
		if err := e.drop(ctx, c, CordonTakenOver, why); err != nil {
			return nil, err
		}
	}
	return holds, nil
}

// drop forgets the cordon, and saves that.
func (e *Executor) drop(ctx context.Context, c *Cordon, what Freed, why string) error {
	e.history.Drop(c, e.Clock.Now())
	e.plan = nil
	if err := e.save(ctx); err != nil {
		return err
	}
	e.Observer.Freed(c, what, why)
	return nil
}

// uncordon uncordons the node if the cordon holds. Otherwise, or after a failure, the next step looks again.
func (e *Executor) uncordon(ctx context.Context, c *Cordon, why string) error {
	if c.Emptied.IsZero() { // it must be uncordoned even if the reason is over
		c.Ends = cmp.Or(c.Ends, why)
	}
	node, err := e.Nodes.Node(ctx, c.Node)
	done := false
	if err == nil && c.holds(node) {
		done, err = e.Nodes.SetCordon(ctx, node, "")
	}
	if err != nil { // moves go on, and another node can make room
		if now := e.Clock.Now(); now.Sub(c.failed) >= uncordonInterval {
			e.plan, c.failed = nil, now
			e.Observer.Freed(c, UncordonFailed, err.Error())
		}
		return nil
	}
	if !done {
		return nil
	}
	return e.drop(ctx, c, NodeUncordoned, cmp.Or(c.Ends, why))
}

// beginEmptying cordons the node of the plan, once all of its pods could be evicted. The node is saved before that.
func (e *Executor) beginEmptying(ctx context.Context, s *Status) error {
	planned := s.Plan.Free
	for i := range planned.Moves {
		if _, pod, err := e.evictable(ctx, &planned.Moves[i]); pod == nil {
			e.plan = nil // the next node
			return err
		}
	}
	e.plan = nil
	if err := e.makePlan(ctx, true); err != nil {
		return err
	}
	s.Plan = e.plan
	node, err := e.Nodes.Node(ctx, planned.Node) // a plan takes long enough for the kubelet to write the node's status
	if err != nil {
		return fmt.Errorf("read node %s: %w", planned.Node, err)
	}
	same := func(a, b Move) bool { return a.UID == b.UID }
	if f := e.plan.Free; node == nil || node.Spec.Unschedulable || e.plan.Stopped != "" || f.Node != planned.Node ||
		!slices.EqualFunc(f.Moves, planned.Moves, same) {
		return nil
	}
	c := e.history.BeginEmptying(node, e.Clock.Now())
	if err := e.save(ctx); err != nil {
		e.history.Drop(c, time.Time{})
		return err
	}
	done, err := e.Nodes.SetCordon(ctx, node, c.Value())
	if err != nil { // a later step finds out whether the node is cordoned
		return fmt.Errorf("cordon node %s: %w", c.Node, err)
	}
	if !done {
		e.history.Drop(c, time.Time{})
		return e.save(ctx)
	}
	e.Observer.Freed(c, NodeCordoned, fmt.Sprintf("It is emptied, because the load is low. Pods to move: %d", len(planned.Moves)))
	return nil
}

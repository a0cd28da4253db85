package plan

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
)

const (
	// maxPlanAge is how old the plan of a move may be.
	maxPlanAge = 15 * time.Second
	// unanswered is how long the API server may still process an eviction after the request failed.
	unanswered = 2 * time.Minute
	// lateEnd is how long a moved pod may end after its grace period, and its node waits for that.
	lateEnd = 5 * time.Minute
	// longestEnding bounds how long a replacement may wait until the evicted pod has ended.
	longestEnding = 30 * time.Minute
	// maxRefusals bounds the evictions that one step tries.
	maxRefusals = 5
)

// Evictor evicts pods.
type Evictor interface {
	// Pod reads the pod from the API server. It returns nil if there is no such pod.
	Pod(ctx context.Context, pod types.NamespacedName) (*corev1.Pod, error)
	// Evict evicts the pod with the UID, or only asks whether it could if dryRun is set. It returns why the pod is not evicted, such
	// as because of a PodDisruptionBudget; empty if it ends. After an error, the pod may be evicted.
	Evict(ctx context.Context, pod types.NamespacedName, uid types.UID, dryRun bool) (refusal string, err error)
}

// Store keeps the state.
type Store interface {
	// Load returns the state that was saved last, and whether an operator has paused moves.
	Load(ctx context.Context) (state []byte, paused bool, err error)
	// Save replaces the state. It fails if anything has changed since Load.
	Save(ctx context.Context, state []byte) error
}

// World is the cluster as it is now.
type World interface {
	// Cluster returns the input of a plan.
	Cluster(ctx context.Context) (Cluster, error)
	// Pods returns the pods of a namespace that have not ended. They must not be changed.
	Pods(namespace string) ([]*corev1.Pod, error)
	// SchedulerDown says why nothing would place a pod; empty if the scheduler runs.
	SchedulerDown(ctx context.Context) (string, error)
}

// Observer receives events. Its methods must return soon.
type Observer interface {
	// Began is called once the pod was evicted.
	Began(m *Moving, pod *corev1.Pod)
	// Refused is called if an eviction was refused, and for what reason.
	Refused(m *Move, pod *corev1.Pod, why string)
	Ended(r *Record)
}

// PausedAnnotation of the state's ConfigMap stops all moves if it is "true".
const PausedAnnotation = "rebalancer.plimsoll.io/paused"

// Stop says why no pod moves.
type Stop string

// The reasons that stop all moves.
const (
	Paused        Stop = "Paused"
	OutsideWindow Stop = "OutsideWindow"
	BreakerOpen   Stop = "BreakerOpen"
	SchedulerDown Stop = "SchedulerDown"
	NodesUnclear  Stop = "NodesUnclear"
)

// Stops returns all reasons.
func Stops() []Stop { return []Stop{Paused, OutsideWindow, BreakerOpen, SchedulerDown, NodesUnclear} }

// Status is the result of a step.
type Status struct {
	// Plan is the last plan; nil before the first.
	Plan *Plan
	// Stop is empty if pods may move. Why says it in words.
	Stop Stop
	Why  string
	// Began is the move that the step began; nil if none.
	Began *Moving
	// UnderWay are the moves without a ready replacement, oldest first.
	UnderWay []*Moving
}

// Executor makes the moves of plans, one at a time. Use it by one goroutine at a time. Its fields may change between steps.
type Executor struct {
	World    World
	Evictor  Evictor
	Store    Store
	Observer Observer
	Clock    clock.PassiveClock
	Config   *api.Configuration

	history History
	// saved is the stored state, and paused the operator's pause, at the last look.
	saved   []byte
	paused  bool
	loaded  bool
	plan    *Plan
	planned time.Time // when the plan was made
}

// Step ends moves whose replacement is ready or late. Then it begins one move at most. refreshed says that the load was read anew.
func (e *Executor) Step(ctx context.Context, refreshed bool) (*Status, error) {
	if err := e.load(ctx); err != nil {
		return nil, err
	}
	if err := e.settle(ctx); err != nil {
		return nil, err
	}
	if refreshed {
		if err := e.observe(ctx); err != nil {
			return nil, err
		}
		e.plan = nil
	}
	s := &Status{}
	var err error
	if s.Stop, s.Why, err = e.brakes(ctx); err != nil {
		return nil, err
	}
	if err := e.cool(ctx, s); err != nil {
		return nil, err
	}
	s.Plan, s.UnderWay = e.plan, e.history.moving()
	return s, nil
}

// cool makes a plan, and begins its first move that is not refused.
func (e *Executor) cool(ctx context.Context, s *Status) (err error) {
	for tried := range maxRefusals {
		if tried > 0 { // an answer may take half a minute
			if s.Stop, s.Why, err = e.brakes(ctx); err != nil {
				return err
			}
		}
		if err := e.makePlan(ctx, s.Stop == ""); err != nil {
			return err
		}
		if s.Stop == "" && e.plan.Stopped != "" {
			s.Stop, s.Why = NodesUnclear, e.plan.Stopped
		}
		if s.Stop != "" || e.Config.Mode != api.Evict || len(e.plan.Moves) == 0 {
			break
		}
		if s.Began, err = e.move(ctx, &e.plan.Moves[0]); err != nil {
			e.plan = nil
			return err
		}
		if s.Began != nil {
			e.plan.Moves = e.plan.Moves[1:]
			break
		}
		e.plan = nil // the next candidate
	}
	return nil
}

// Preview returns what a step would do now, from one look at the load. It changes nothing, so it needs no Evictor and no Observer.
func (e *Executor) Preview(ctx context.Context) (*Status, error) {
	if err := e.load(ctx); err != nil {
		return nil, err
	}
	if err := e.observe(ctx); err != nil {
		return nil, err
	}
	stop, why, err := e.brakes(ctx)
	if err != nil {
		return nil, err
	}
	s := &Status{Stop: stop, Why: why}
	err = e.makePlan(ctx, false)
	s.Plan, s.UnderWay = e.plan, e.history.moving()
	return s, err
}

// load reads the state, which another process may have changed.
func (e *Executor) load(ctx context.Context) error {
	content, paused, err := e.Store.Load(ctx)
	if err != nil {
		return fmt.Errorf("read the state: %w", err)
	}
	e.paused = paused
	if e.loaded && bytes.Equal(content, e.saved) {
		return nil
	}
	state, err := DecodeState(content)
	if err != nil {
		return err
	}
	e.history.restore(state, e.Clock.Now(), e.Config)
	e.saved, e.loaded, e.plan = content, true, nil
	return nil
}

// save stores the state. If it fails, the next step reads it anew.
func (e *Executor) save(ctx context.Context) error {
	content, err := e.history.encode()
	if err != nil {
		return err
	}
	if err := e.Store.Save(ctx, content); err != nil {
		e.loaded = false
		return fmt.Errorf("save the state: %w", err)
	}
	e.saved = content
	return nil
}

func (e *Executor) observe(ctx context.Context) error {
	cluster, err := e.World.Cluster(ctx)
	if err != nil {
		return err
	}
	nodes, err := Look(ctx, cluster.Scheduler, cluster.Load, e.Config)
	if err != nil {
		return err
	}
	e.history.Observe(nodes, e.Config)
	return nil
}

func (e *Executor) brakes(ctx context.Context) (stop Stop, why string, err error) {
	if e.paused {
		return Paused, "the state's ConfigMap has the annotation " + PausedAnnotation + ": \"true\"; remove it to go on", nil
	}
	if stop, why = e.history.StoppedBy(e.Clock.Now(), e.Config); stop != "" {
		return stop, why, nil
	}
	if why, err = e.World.SchedulerDown(ctx); err != nil {
		return "", "", fmt.Errorf("look for the scheduler: %w", err)
	}
	if why != "" {
		return SchedulerDown, why, nil
	}
	return "", "", nil
}

// makePlan makes a plan unless there is one. A plan whose moves are to be made must be fresh.
func (e *Executor) makePlan(ctx context.Context, moves bool) (err error) {
	now := e.Clock.Now()
	moves = moves && e.Config.Mode == api.Evict && e.plan != nil && len(e.plan.Moves) > 0
	if e.plan != nil && (!moves || now.Sub(e.planned) <= maxPlanAge) {
		return nil
	}
	cluster, err := e.World.Cluster(ctx)
	if err != nil {
		return err
	}
	cluster.Now = now
	reserved, err := e.reserve(cluster)
	if err == nil {
		e.plan, err = Make(ctx, cluster, &e.history, e.Config)
		e.planned = now
	}
	for _, pod := range reserved {
		err = errors.Join(err, cluster.Scheduler.Remove(pod))
	}
	if err != nil {
		e.plan = nil
	}
	return err
}

// podsIn returns the pods of a namespace, the newest first.
func (e *Executor) podsIn(namespace string) ([]*corev1.Pod, error) {
	pods, err := e.World.Pods(namespace)
	pods = slices.Clone(pods)
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return pods, err
}

// reserve places the missing replacements of moves under way, so that no other pod is planned into their room.
func (e *Executor) reserve(cluster Cluster) (reserved []*corev1.Pod, err error) {
	pods, err := e.assign()
	if err != nil {
		return nil, err
	}
	for _, m := range e.history.moving() {
		of := pods[m.Namespace]
		i := slices.IndexFunc(of, func(pod *corev1.Pod) bool { return isOf(pod, m.OwnerUID) })
		if i < 0 || m.isPlaced() {
			continue
		}
		again := replacementOf(of[i], cluster.Now)
		again.Name, again.UID = again.Name+"-"+string(m.UID), again.UID+"-"+m.UID
		placed := boundTo(again, m.To, cluster.Now)
		if err := cluster.Scheduler.Add(placed); err != nil {
			return reserved, err
		}
		reserved = append(reserved, placed)
	}
	return reserved, nil
}

// move evicts the pod. It returns nil if the pod stays. The move is saved before it is made.
func (e *Executor) move(ctx context.Context, m *Move) (*Moving, error) {
	pods, pod, err := e.evictable(ctx, m)
	if pod == nil {
		return nil, err
	}
	e.history.Begin(m, e.Clock.Now())
	moving := e.history.underWay[m.UID]
	moving.Or = moving.Or[:min(len(moving.Or), maxOr)]
	moving.Newest, moving.Known = newestOf(pods, m.OwnerUID)
	grace := ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, 0)
	// Until it is seen to end. A pod may have a negative period, which counts as a second.
	moving.Ending = time.Duration(max(0, min(grace, int64(longestEnding/time.Second)))) * time.Second
	if _, moving.Controlled, err = e.wanted(ctx, m); err != nil {
		e.history.cancel(m.UID)
		return nil, err
	}
	if err := e.save(ctx); err != nil {
		e.history.cancel(m.UID)
		if !apierrors.IsConflict(err) { // the next attempt could fail too
			e.history.refuse(m.UID, e.Clock.Now())
		}
		return nil, err
	}
	name := types.NamespacedName{Namespace: m.Namespace, Name: m.Pod}
	why, err := e.Evictor.Evict(ctx, name, m.UID, false)
	switch {
	case apierrors.IsInternalError(err) && e.isUntouched(ctx, m): // such as a webhook that fails
		e.history.cancel(m.UID)
		e.refuse(m, pod, err.Error())
		return nil, e.save(ctx)
	case err != nil: // settle finds out whether the pod was evicted
		e.history.refuse(m.UID, e.Clock.Now()) // if not, the next attempt could hang too
		return nil, fmt.Errorf("evict pod %s: %w", name, err)
	case why != "":
		e.history.cancel(m.UID)
		e.refuse(m, pod, why)
		return nil, e.save(ctx)
	}
	e.Observer.Began(moving, pod)
	return moving, nil
}

// isUntouched reports whether the API server has the pod, and it does not end.
func (e *Executor) isUntouched(ctx context.Context, m *Move) bool {
	pod, err := e.Evictor.Pod(ctx, types.NamespacedName{Namespace: m.Namespace, Name: m.Pod})
	return err == nil && stays(pod) && pod.UID == m.UID
}

// evictable returns the pod of the move, and all pods of its namespace. The pod is nil if it stays, by a fresh read or a dry run.
func (e *Executor) evictable(ctx context.Context, m *Move) (pods []*corev1.Pod, pod *corev1.Pod, err error) {
	if pods, err = e.podsIn(m.Namespace); err != nil {
		return nil, nil, err
	}
	of := podOf(pods, m.UID)
	if !stays(of) {
		e.history.refuse(m.UID, e.Clock.Now())
		return nil, nil, nil
	}
	name := types.NamespacedName{Namespace: m.Namespace, Name: m.Pod}
	latest, err := e.Evictor.Pod(ctx, name)
	if err != nil {
		return nil, nil, fmt.Errorf("read pod %s: %w", name, err)
	}
	why := changed(m, latest, e.Config, e.Clock.Now())
	if why == "" {
		if spares, err := e.spares(ctx, m, pods); err != nil || !spares {
			e.plan = nil
			return nil, nil, err
		}
		if why, err = e.Evictor.Evict(ctx, name, latest.UID, true); err != nil {
			why = err.Error()
		}
	}
	if why != "" {
		e.refuse(m, of, why)
		return nil, nil, ctx.Err()
	}
	return pods, of, nil
}

func (e *Executor) refuse(m *Move, pod *corev1.Pod, why string) {
	e.history.refuse(m.UID, e.Clock.Now())
	e.Observer.Refused(m, pod, why)
}

// changed returns why the planned move does not hold for the pod any more; empty if it does. A watch may be late.
func changed(m *Move, latest *corev1.Pod, c *api.Configuration, now time.Time) string {
	switch {
	case latest == nil || latest.UID != m.UID:
		return "the pod is gone"
	case latest.Spec.NodeName != m.From:
		return "the pod is on node " + latest.Spec.NodeName
	}
	if reason := protection(latest, c, 0, now); reason != "" {
		return "the pod must stay now: " + string(reason)
	}
	return ""
}

// spares reports whether the workload of the move can do without the pod now. The plan may be older than the workload's pods.
func (e *Executor) spares(ctx context.Context, m *Move, pods []*corev1.Pod) (bool, error) {
	workload, own, underWay := replicas{}, 0, e.history.podsUnderWay()
	for _, other := range pods {
		owner, isGone := metav1.GetControllerOfNoCopy(other), other.DeletionTimestamp != nil && other.Spec.NodeName == ""
		if owner == nil || isGone || underWay[other.UID] || podusage.HasEnded(other) || workloadOf(other, owner) != m.Workload {
			continue
		}
		workload.add(other)
		if owner.UID == m.OwnerUID {
			own++
		}
	}
	for _, other := range e.history.underWay {
		if other.Workload == m.Workload {
			workload.miss(1)
		}
		if other.OwnerUID == m.OwnerUID {
			own++
		}
	}
	wanted, _, err := e.wanted(ctx, m)
	workload.miss(wanted - own)
	return !isSingle(own, e.Config) && workload.unavailable < maxUnavailable(workload.all), err
}

// newestOf returns when the controller's youngest pod was created, and the UIDs of all pods of that moment. The API server's clock
// may differ from that of this machine.
func newestOf(pods []*corev1.Pod, owner types.UID) (newest time.Time, known []types.UID) {
	for _, pod := range pods {
		at := pod.CreationTimestamp.Time
		if !isOf(pod, owner) || at.Before(newest) {
			continue
		}
		if at.After(newest) {
			newest, known = at, nil
		}
		known = append(known, pod.UID)
	}
	if len(known) > maxKnown { // times have whole seconds: of these pods, none is a replacement
		return newest.Add(time.Second), nil
	}
	return newest, known
}

func isOf(pod *corev1.Pod, owner types.UID) bool {
	of := metav1.GetControllerOfNoCopy(pod)
	return of != nil && of.UID == owner
}

func podOf(pods []*corev1.Pod, uid types.UID) *corev1.Pod {
	if i := slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return pod.UID == uid }); i >= 0 {
		return pods[i]
	}
	return nil
}

// stays reports whether the moved pod is there, and does not end.
func stays(moved *corev1.Pod) bool { return moved != nil && moved.DeletionTimestamp == nil }

// assign notes the replacement of each move under way, and returns the pods of their namespaces. No pod replaces two.
func (e *Executor) assign() (pods map[string][]*corev1.Pod, err error) {
	pods = map[string][]*corev1.Pod{}
	taken := map[types.UID]bool{}
	for i := range e.history.records {
		taken[e.history.records[i].ReplacementUID] = true
	}
	moves := map[types.UID][]*Moving{} // by controller, oldest first
	for _, m := range e.history.moving() {
		if pods[m.Namespace] == nil {
			if pods[m.Namespace], err = e.podsIn(m.Namespace); err != nil {
				return nil, err
			}
		}
		moves[m.OwnerUID] = append(moves[m.OwnerUID], m)
	}
	for _, of := range moves {
		match(of, slices.DeleteFunc(slices.Clone(pods[of[0].Namespace]), func(pod *corev1.Pod) bool { return taken[pod.UID] }))
	}
	return pods, nil
}

// match notes the replacements of one controller's moves, the oldest of which comes first. As many moves as can be have one.
// Of more pods than moves, those count that are ready, then those on a node, then the oldest.
func match(moves []*Moving, pods []*corev1.Pod) {
	waiting := slices.DeleteFunc(slices.Clone(moves), func(m *Moving) bool {
		m.replacement = nil
		return stays(podOf(pods, m.UID)) // it was not evicted
	})
	pods = slices.DeleteFunc(pods, func(pod *corev1.Pod) bool {
		return !slices.ContainsFunc(waiting, func(m *Moving) bool { return m.mayHave(pod) })
	})
	byAge := func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return cmp.Or(stage(b)-stage(a), byAge(a, b)) })
	var chosen []*corev1.Pod
	for _, pod := range pods {
		with := slices.SortedFunc(slices.Values(append(chosen[:len(chosen):len(chosen)], pod)), byAge)
		if replaceAll(waiting, with) {
			chosen = with
		}
	}
	replaceAll(waiting, chosen)
}

// replaceAll gives each pod, of which the oldest comes first, to the oldest move that may have it. Each move may have all younger
// pods than its own, too. So a pod remains only if the moves cannot have all of them.
func replaceAll(moves []*Moving, pods []*corev1.Pod) bool {
	for _, m := range moves {
		m.replacement = nil
	}
	for _, pod := range pods {
		i := slices.IndexFunc(moves, func(m *Moving) bool { return m.replacement == nil && m.mayHave(pod) })
		if i < 0 {
			return false
		}
		moves[i].replacement = pod
	}
	return true
}

// mayHave reports whether the pod may be in place of the moved one. It is younger. That of a StatefulSet has the same name.
func (m *Moving) mayHave(pod *corev1.Pod) bool {
	at := pod.CreationTimestamp.Time
	switch {
	case !isOf(pod, m.OwnerUID) || pod.DeletionTimestamp != nil || pod.UID == m.UID:
		return false
	case m.Owner.Kind == "StatefulSet" && pod.Name != m.Pod:
		return false
	}
	return at.After(m.Newest) || at.Equal(m.Newest) && !slices.Contains(m.Known, pod.UID)
}

// stage is 2 for a ready pod, 1 for a placed one.
func stage(pod *corev1.Pod) int {
	switch {
	case isReady(pod):
		return 2
	case pod.Spec.NodeName != "":
		return 1
	}
	return 0
}

// settle ends moves whose replacement is ready or late. After an error about one, it goes on with the others.
func (e *Executor) settle(ctx context.Context) error {
	var ended []*Record
	pods, err := e.assign()
	if err != nil {
		return err
	}
	for _, m := range e.history.moving() {
		r, failed := e.outcome(ctx, m, pods[m.Namespace])
		if err = errors.Join(err, failed); failed != nil || r == nil {
			continue
		}
		ended = append(ended, r)
		e.history.end(r, e.Config)
	}
	if len(ended) == 0 {
		return err
	}
	e.plan = nil
	if failed := e.save(ctx); failed != nil {
		return errors.Join(err, failed)
	}
	for _, r := range ended {
		e.Observer.Ended(r)
	}
	return err
}

// outcome returns how the move ended; nil if it is under way.
func (e *Executor) outcome(ctx context.Context, m *Moving, pods []*corev1.Pod) (*Record, error) {
	moved, now := podOf(pods, m.UID), e.Clock.Now()
	if m.replacement == nil {
		m.waitFor(moved, now)
	} else { // it may be created before the moved pod has ended
		m.Ending = max(0, min(m.Ending, m.replacement.CreationTimestamp.Sub(m.Began)))
	}
	r := &Record{Moving: *m, Ended: now}
	r.replacedBy(m.replacement)
	switch {
	case stays(moved): // it was not evicted
		if now.Sub(m.Began) < unanswered {
			return nil, nil
		}
		r.Outcome = Withdrawn
		return r, nil
	case r.Replacement != "" && (r.Node == m.From || isReady(m.replacement)):
		cluster, err := e.World.Cluster(ctx)
		if err == nil {
			e.history.land(ctx, cluster, e.Config, r)
		}
		return r, err
	case now.Sub(m.Began) < m.Ending+e.Config.ReplacementTimeout.Duration:
		return nil, nil
	}
	r.Outcome = NotReady
	return r, e.excuse(ctx, r, pods)
}

// waitFor extends the move while the moved pod ends. The pod may be nil.
func (m *Moving) waitFor(moved *corev1.Pod, now time.Time) {
	if moved != nil && moved.DeletionTimestamp != nil {
		m.Ending = max(0, min(now.Sub(m.Began), moved.DeletionTimestamp.Sub(m.Began), longestEnding))
	}
}

// excuse changes the outcome if there is no replacement, and the controller wants none. It was scaled down, deleted or rolled out.
func (e *Executor) excuse(ctx context.Context, r *Record, pods []*corev1.Pod) error {
	if r.Replacement != "" || !r.Controlled {
		return nil
	}
	wanted, _, err := e.wanted(ctx, &r.Move)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if isOf(pod, r.OwnerUID) && pod.UID != r.UID && pod.DeletionTimestamp == nil {
			wanted--
		}
	}
	if wanted <= 0 {
		r.Outcome = ScaledDown
	}
	return nil
}

// wanted returns the number of pods that the controller of the moved pod wants. It is not known if the controller is gone, or of a
// kind that is not in controllers.
func (e *Executor) wanted(ctx context.Context, m *Move) (replicas int, known bool, err error) {
	cluster, err := e.World.Cluster(ctx)
	if err != nil {
		return 0, false, err
	}
	c, known := findController(cluster.Scheduler, m.Owner.Kind, m.Namespace, m.Owner.Name, m.OwnerUID)
	if !known {
		return 0, false, nil
	}
	return c.wants(), true, nil
}

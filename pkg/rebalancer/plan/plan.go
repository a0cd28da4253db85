// Package plan plans which pods to move off hot nodes. In a simulation, the scheduler's own code says where each pod would go.
// The package evicts nothing, and does no I/O.
package plan

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

// Cluster is the input of a plan.
type Cluster struct {
	// Scheduler has the cluster's nodes, pods and PodDisruptionBudgets. A plan leaves it as it was.
	Scheduler *sim.Scheduler
	// SchedulerNames are the profiles whose pods may move.
	SchedulerNames []string
	// Load compares nodes with their load lines: the utilizations that they should not pass.
	Load explain.LoadReader
	Now  time.Time
	// Extenders are those of the scheduler. Pods that it asks them about stay.
	Extenders []schedulerconfig.Extender
	// Unplaced are the pods without a node, of all schedulers.
	Unplaced []*corev1.Pod
	// Usage returns the measured usage of a pod, in milliCPU and bytes; false if it is not known. It replaces the expected usage.
	// Usage may be nil.
	Usage func(pod *corev1.Pod) (podusage.Amounts, bool)
}

// Plan has moves, and the reasons for which other pods stay.
type Plan struct {
	// Stopped says why nothing moves; empty if something might.
	Stopped string
	Nodes   []LoadedNode
	// Hot are the names of hot nodes, hottest first. Unclear says why none of a pool is a source of moves, although others may be.
	Hot     []string
	Unclear []string
	Moves   []Move
	// Stay counts the pods of hot nodes that stay, by reason.
	Stay map[Reason]int
	// Resting are the hot nodes whose last move is not measured yet. Deferred are those beyond a limit of moves.
	Resting, Deferred []string
	// Simulated is the number of simulated decisions. Problem is the error of the first that failed; empty if none did.
	Simulated int
	Problem   string
}

// Move is a pod to move.
type Move struct {
	Namespace string    `json:"namespace"`
	Pod       string    `json:"pod"`
	UID       types.UID `json:"uid"`
	OwnerUID  types.UID `json:"ownerUID"`
	// Owner is the pod's controller. Workload has its namespace, and names a ReplicaSet's Deployment.
	Owner    Owner  `json:"owner"`
	Workload string `json:"workload"`
	From     string `json:"from"`
	To       string `json:"to"`
	// Or are nodes that score as To does, and have room too: the scheduler chooses one of them at random.
	Or []string `json:"or,omitempty"`
	// Resource is the resource of which the source is above its line.
	Resource load.Resource `json:"resource"`
	// Line is the source's. Utilizations are fractions of capacity, before the plan and after this move. The replacement may land on
	// another node than To, so ToAfter is not saved.
	Line       float64 `json:"line"`
	FromBefore float64 `json:"fromBefore"`
	FromAfter  float64 `json:"fromAfter"`
	ToAfter    float64 `json:"-"`
	Disruption float64 `json:"disruption"`
	// Usage is what the pod uses of Resource. Beyond is what it uses beyond its expected usage. Both are in milliCPU or bytes.
	Usage  float64          `json:"usage"`
	Beyond podusage.Amounts `json:"beyondExpected"`
}

// Why says what the move is for.
func (m *Move) Why() string {
	return fmt.Sprintf("%s of %s goes from %.0f %% to %.0f %%, and its line is %.0f %%", m.Resource, m.From, 100*m.FromBefore,
		100*m.FromAfter, 100*m.Line)
}

// Owner is the controller of a pod. Its text is "ReplicaSet web-1".
type Owner struct{ Kind, Name string }

func (o Owner) String() string { return o.Kind + " " + o.Name }

func (o Owner) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

func (o *Owner) UnmarshalText(text []byte) error {
	o.Kind, o.Name, _ = strings.Cut(string(text), " ")
	return nil
}

type planner struct {
	Cluster
	*Plan
	c       *api.Configuration
	history *History
	look    looker
	byName  map[string]*LoadedNode
	pods    int
	// replicas counts the pods of each controller that have not ended. workloads are by Move.Workload.
	replicas  map[types.UID]int
	workloads map[string]*replicas
	// more has what earlier moves use beyond their expected usage and the measured load, by node.
	more    map[string]podusage.Amounts
	budgets []*budget
	// perNamespace counts moves under way, and perHour those of the last hour, both with those of the plan.
	perNamespace, perHour map[string]int
	// ending counts moves under way that only wait for their pod to terminate: they take no place.
	ending int
	// landedHot are the workloads whose last move did.
	landedHot map[string]bool
	// unclear are the pools without moves.
	unclear map[poolKey]bool
	undo    []func() error
}

type replicas struct{ all, unavailable int }

func (r *replicas) add(pod *corev1.Pod) {
	r.all++
	if pod.DeletionTimestamp != nil || !isReady(pod) {
		r.unavailable++
	}
}

// miss adds pods that are wanted, and do not exist; none if the number is negative.
func (r *replicas) miss(missing int) {
	r.all += max(missing, 0)
	r.unavailable += max(missing, 0)
}

// budget is a PodDisruptionBudget with what it still allows.
type budget struct {
	namespace string
	selector  labels.Selector
	allowed   int
}

// Make plans one move for each hot node, the hottest first, as far as limits allow. The same cluster and history lead to the same
// plan. Of the history, it drops expired entries. It notes which moved pods still end, and which pods
// have no good move.
func Make(ctx context.Context, cluster Cluster, h *History, c *api.Configuration) (_ *Plan, err error) {
	p := &planner{
		Cluster: cluster, Plan: &Plan{Stay: map[Reason]int{}}, c: c, history: h, look: newLooker(cluster.Load, c),
		byName: map[string]*LoadedNode{}, replicas: map[types.UID]int{}, perNamespace: map[string]int{}, perHour: map[string]int{},
		landedHot: map[string]bool{}, more: map[string]podusage.Amounts{},
	}
	h.forget(p.Now)
	if p.Nodes, err = Look(ctx, p.Scheduler, p.Load, c); err != nil {
		return nil, err
	}
	for i := range p.Nodes {
		p.byName[p.Nodes[i].Name] = &p.Nodes[i]
	}
	infos, err := p.Scheduler.NodeInfos(ctx)
	if err != nil {
		return nil, err
	}
	p.Stopped = p.findHot(infos)
	if p.Stopped != "" || len(p.Hot) == 0 {
		return p.Plan, nil
	}
	p.count(infos)
	defer func() {
		for _, undo := range slices.Backward(p.undo) {
			err = cmp.Or(err, undo())
		}
	}()
	if err := p.coolAll(ctx); err != nil {
		return nil, err
	}
	return p.Plan, nil
}

func (p *planner) coolAll(ctx context.Context) error {
	left := p.movesLeft()
	for _, name := range p.Hot {
		past := p.history.nodes[name]
		switch {
		case p.isResting(name):
			p.Resting = append(p.Resting, name)
		case left <= 0 || past == nil || p.unclear[p.byName[name].pool]:
			p.Deferred = append(p.Deferred, name)
		default:
			moved, err := p.cool(ctx, p.byName[name])
			if err != nil {
				return err
			}
			if moved {
				left--
			}
		}
	}
	return nil
}

// count counts the pods with a controller that have not ended, and reads the PodDisruptionBudgets.
func (p *planner) count(infos []fwk.NodeInfo) {
	moved, beyond, underWay := p.countMoves(), p.history.beyond(), p.history.podsUnderWay()
	for _, info := range infos {
		addTo(p.more, info.Node().Name, p.look.unmeasured(info, beyond))
		for _, podInfo := range info.GetPods() {
			pod := podInfo.GetPod()
			if !underWay[pod.UID] {
				p.countPod(pod)
			}
			ends := moved[pod.UID] && pod.DeletionTimestamp != nil && !podusage.HasEnded(pod)
			if m := p.history.underWay[pod.UID]; ends && m != nil && m.replacement == nil {
				p.ending++
			}
			if ends && !endsTooLong(pod, p.Now) { // its load goes on
				p.history.nodeOf(info.Node().Name).moved = p.Now
			}
		}
	}
	for _, pod := range p.Unplaced {
		if !underWay[pod.UID] {
			p.countPod(pod)
		}
	}
	p.countMissing()
	p.readBudgets()
}

// endsTooLong reports whether a pod should have ended, or ends for so long that its node does not wait: a pod may ask for days.
func endsTooLong(pod *corev1.Pod, now time.Time) bool {
	late := now.Unix() - pod.DeletionTimestamp.Unix()
	ends := late + ptr.Deref(pod.DeletionGracePeriodSeconds, 0) // since its deletion
	return late >= int64(lateEnd/time.Second) || ends >= int64(longestEnding/time.Second)
}

func (p *planner) readBudgets() {
	for _, object := range p.Scheduler.Informers().Policy().V1().PodDisruptionBudgets().Informer().GetStore().List() {
		b := object.(*policyv1.PodDisruptionBudget)
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			selector = labels.Everything() // what cannot be read protects all
		}
		p.budgets = append(p.budgets, &budget{b.Namespace, selector, int(b.Status.DisruptionsAllowed)})
	}
}

// countMoves counts the moves under way, each as one unavailable pod. A replacement without a node counts on that of its plan. It
// returns the moved pods.
func (p *planner) countMoves() map[types.UID]bool {
	moved := map[types.UID]bool{}
	for i := range p.history.records {
		r := &p.history.records[i]
		moved[r.UID] = true
		if r.Outcome != Withdrawn {
			p.landedHot[r.Workload] = r.Outcome == LandedHot
		}
	}
	for _, made := range p.history.moves {
		p.perHour[made.namespace]++
	}
	for _, m := range p.history.moving() { // in order: sums of fractions depend on it
		moved[m.UID] = true
		p.pods++
		p.replicas[m.OwnerUID]++
		p.workload(m.Workload).miss(1)
		p.perNamespace[m.Namespace]++
		if !m.isPlaced() {
			addTo(p.more, m.To, m.Beyond)
		}
	}
	return moved
}

// countPod counts the pod for its controller. Controllers do not replace pods that have ended.
func (p *planner) countPod(pod *corev1.Pod) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if podusage.HasEnded(pod) || owner == nil {
		return
	}
	p.pods++
	p.replicas[owner.UID]++
	p.workload(workloadOf(pod, owner)).add(pod)
}

func (p *planner) workload(name string) *replicas { return entryOf(&p.workloads, name) }

// countMissing counts the pods that controllers want and could not create, such as beyond a quota. Moves under way have counted.
func (p *planner) countMissing() {
	for _, informer := range controllers {
		for _, object := range informer(p.Scheduler.Informers()).GetStore().List() {
			c := newController(object)
			if missing := c.wants() - p.replicas[c.meta.UID]; missing > 0 {
				p.workload(c.workload()).miss(missing)
			}
		}
	}
}

// workloadOf names the workload of a pod with a controller. ReplicaSets of a Deployment have its name: a rollout has two.
func workloadOf(pod *corev1.Pod, owner *metav1.OwnerReference) string {
	w, _ := learned.OwnerOf(pod)
	return owner.Kind + " " + pod.Namespace + "/" + w.Name
}

func addTo(more map[string]podusage.Amounts, node string, amounts podusage.Amounts) {
	for r, amount := range more[node] {
		amounts[r] += amount
	}
	more[node] = amounts
}

func (p *planner) lookAt(ctx context.Context, name string) (LoadedNode, error) {
	info, err := p.Scheduler.NodeInfo(ctx, name)
	if err != nil {
		return LoadedNode{}, err
	}
	return p.look.node(info), nil
}

func (p *planner) movesLeft() int {
	underWay := len(p.history.underWay)
	return min(p.hourly()-len(p.history.moves), p.places()-(underWay-p.ending), maxUnderWay-underWay)
}

func (p *planner) places() int {
	return min(max(2, int(p.c.MaxNodesPercentInFlight/100*float64(len(p.Nodes)))), maxUnderWay)
}

func (p *planner) hourly() int {
	share := int(p.c.MaxPodsPercentPerHour / 100 * float64(p.pods))
	if p.c.MaxPodsPercentPerHour > 0 {
		share = max(share, 1) // in small clusters
	}
	return min(share, p.c.MaxMovesPerHour)
}

// hasItsShare reports whether a namespace has all moves that it may have. Half of the places, and of the hour's moves while another
// node is hot, are for other namespaces.
func (p *planner) hasItsShare(namespace string) bool {
	return p.perNamespace[namespace] >= min(p.c.MaxPerNamespaceInFlight, p.places()/2) ||
		len(p.Hot) > 1 && p.perHour[namespace] >= max(1, p.hourly()/2)
}

// isResting reports whether the load does not show the node's last move yet.
func (p *planner) isResting(node string) bool {
	past := p.history.nodes[node]
	if past != nil && !past.moved.IsZero() && p.byName[node].End.Sub(past.moved) < WindowOf(p.Load) {
		return true
	}
	for _, m := range p.history.underWay {
		if m.From == node {
			return true
		}
	}
	return false
}

type candidate struct {
	pod *corev1.Pod
	// usage is in milliCPU or bytes. relief is the part of it that the source's load covers, as a fraction of the source's capacity.
	usage, relief, disruption float64
}

// cool plans the move of one pod of a hot node.
func (p *planner) cool(ctx context.Context, source *LoadedNode) (moved bool, err error) {
	resource, _ := source.Excess()
	info, err := p.Scheduler.NodeInfo(ctx, source.Name)
	if err != nil {
		return false, err
	}
	candidates := p.candidates(source, info, resource)
	for i, c := range candidates {
		if i >= p.c.SimulationsPerNode {
			p.Stay[NotSimulated] += len(candidates) - i
			break
		}
		reason, err := p.try(ctx, source, resource, &c)
		if err != nil {
			return false, err
		}
		if reason == "" {
			if others := len(candidates) - i - 1; others > 0 {
				p.Stay[AnotherMoves] += others
			}
			return true, nil
		}
		p.Stay[reason]++
		noteUntil(&p.history.tried, c.pod.UID, p.Now.Add(firstBar))
	}
	return false, nil
}

// candidates returns the pods that may move, largest relief per disruption first. Workloads whose last move landed hot go last. So
// do pods without a good move in the last minutes, if not all can be simulated.
func (p *planner) candidates(source *LoadedNode, info fwk.NodeInfo, resource load.Resource) []candidate {
	var found []candidate
	minAge := max(p.c.MinPodAge.Duration, 2*WindowOf(p.Load))
	view := p.Load.Reader().Model(resource).View(p.look.state)
	for _, l := range view.Pods(info) {
		usage := l.Resources[resource].Usage
		if p.Usage != nil {
			if measured, ok := p.Usage(l.Pod); ok {
				usage = measured[resource]
			}
		}
		c := candidate{pod: l.Pod, usage: usage, relief: usage * l.Resources[resource].Coverage / source.Base[resource]}
		reason := p.stays(&c, minAge)
		if reason == "" && c.relief/c.disruption < p.c.MinReliefPercent/100 {
			reason = LittleRelief
		}
		if reason != "" {
			p.Stay[reason]++
			continue
		}
		found = append(found, c)
	}
	rank := func(c *candidate) (last int) {
		if _, ok := p.history.tried[c.pod.UID]; ok && len(found) > p.c.SimulationsPerNode {
			last = 2
		}
		if p.landedHot[workloadOf(c.pod, metav1.GetControllerOfNoCopy(c.pod))] {
			last++
		}
		return last
	}
	slices.SortStableFunc(found, func(a, b candidate) int {
		return cmp.Or(rank(&a)-rank(&b),
			cmp.Compare(b.relief/b.disruption, a.relief/a.disruption),
			cmp.Compare(a.pod.Namespace, b.pod.Namespace), cmp.Compare(a.pod.Name, b.pod.Name))
	})
	return found
}

// stays returns why the pod must stay; empty if it may move. It sets the pod's disruption.
func (p *planner) stays(c *candidate, minAge time.Duration) Reason {
	if reason := protection(c.pod, p.c, minAge, p.Now); reason != "" {
		return reason
	}
	owner := metav1.GetControllerOfNoCopy(c.pod)
	name := workloadOf(c.pod, owner)
	r, w := p.workload(name), p.history.workloads[name]
	if w == nil {
		w = &Workload{}
	}
	c.disruption = disruptionOf(c.pod, w.Moved, p.Now)
	switch {
	case !slices.Contains(p.SchedulerNames, c.pod.Spec.SchedulerName):
		return OtherScheduler
	case asksExtender(c.pod, p.Extenders):
		return AsksExtender
	case isSingle(p.replicas[owner.UID], p.c):
		return Reason(api.SingleReplicas)
	case p.Now.Before(p.history.refused[c.pod.UID]):
		return EvictionRefused
	case p.Now.Before(w.BarredUntil):
		return WorkloadBarred
	case p.Now.Before(p.history.breaker.Namespaces[c.pod.Namespace]):
		return NamespaceRests
	case r.unavailable >= maxUnavailable(r.all):
		return WorkloadLimit
	case p.hasItsShare(c.pod.Namespace):
		return NamespaceLimit
	case !p.budgetsAllow(c.pod):
		return DisruptionBudget
	}
	return ""
}

func maxUnavailable(all int) int {
	switch {
	case all <= 3:
		return 1
	case all <= 10:
		return 2
	}
	return int(math.Ceil(float64(all) / 10))
}

func (p *planner) budgetsAllow(pod *corev1.Pod) bool {
	return !slices.ContainsFunc(p.budgets, func(b *budget) bool { return b.covers(pod) && b.allowed <= 0 })
}

func (b *budget) covers(pod *corev1.Pod) bool {
	return b.namespace == pod.Namespace && b.selector.Matches(labels.Set(pod.Labels))
}

// back undoes the simulation until so many steps are left.
func (p *planner) back(kept int) error {
	for len(p.undo) > kept {
		last := len(p.undo) - 1
		if err := p.undo[last](); err != nil {
			return err
		}
		p.undo = p.undo[:last]
	}
	return nil
}

// try simulates the move. A good move stays in the simulation until the plan is made. Otherwise try undoes it, and returns why.
func (p *planner) try(ctx context.Context, source *LoadedNode, resource load.Resource, c *candidate) (Reason, error) {
	kept := len(p.undo)
	reason, err := p.simulate(ctx, source, resource, c)
	if err != nil && ctx.Err() == nil { // one pod must not end the plan
		p.Problem = cmp.Or(p.Problem, fmt.Sprintf("pod %s/%s: %v", c.pod.Namespace, c.pod.Name, err))
		reason, err = SimulationFailed, nil
	}
	if reason != "" {
		err = cmp.Or(err, p.back(kept))
	}
	return reason, err
}

// simulate simulates the move, and accepts it. It returns why the move is not good.
func (p *planner) simulate(ctx context.Context, source *LoadedNode, resource load.Resource, c *candidate) (Reason, error) {
	if err := p.Scheduler.Remove(c.pod); err != nil {
		return "", err
	}
	p.undo = append(p.undo, func() error { return p.Scheduler.Add(c.pod) })
	m, reason, err := p.land(ctx, source.Name, resource, c)
	if err != nil || reason != "" {
		return reason, err
	}
	m.Line, m.FromBefore, m.FromAfter = source.Line[resource], source.Measured[resource], source.Measured[resource]-c.relief
	p.accept(c, m)
	return "", nil
}

// land places the replacement of a removed pod, or returns why it finds no good node. All best nodes must have room.
func (p *planner) land(ctx context.Context, from string, resource load.Resource, c *candidate) (m Move, reason Reason, err error) {
	replacement := replacementOf(c.pod, p.Now)
	d, err := p.Scheduler.Explain(ctx, replacement)
	if err != nil {
		return m, "", err
	}
	p.Simulated++
	if d.Node == "" {
		return m, NoOtherNode, nil
	}
	best := bestOf(d)
	if slices.Contains(best, from) || p.left(c.pod, best) {
		return m, WouldReturn, nil
	}
	last := len(best) - 1
	m = Move{From: from, To: d.Node, Or: best[:last:last], Resource: resource}
	for i, name := range best {
		if i > 0 { // only the last one stays placed
			if err := p.back(len(p.undo) - 1); err != nil {
				return m, "", err
			}
		}
		before, to, err := p.place(ctx, replacement, name)
		if err != nil {
			return m, "", err
		}
		expected := (to.Utilization[resource] - before.Utilization[resource]) * to.Base[resource]
		m.Beyond[resource] = max(0, c.usage-expected) // the pod may use more than is expected
		m.Usage = expected + m.Beyond[resource]
		to.add(m.Beyond)
		to.add(p.more[name])
		m.ToAfter = to.Utilization[resource]
		if !to.Known || to.crowding() > -p.c.RoomPercent/100 {
			return m, NoRoom, nil
		}
	}
	addTo(p.more, d.Node, m.Beyond)
	return m, "", nil
}

// left reports whether a pod of the workload was moved off one of the nodes a short time ago.
func (p *planner) left(pod *corev1.Pod, nodes []string) bool {
	name := workloadOf(pod, metav1.GetControllerOfNoCopy(pod))
	return slices.ContainsFunc(p.history.records, func(r Record) bool {
		return r.Workload == name && r.Outcome != Withdrawn && p.Now.Sub(r.Ended) < remembered && slices.Contains(nodes, r.From)
	})
}

// bestOf returns the nodes with the highest total; the chosen one is last.
func bestOf(d *sim.Result) (names []string) {
	for i := range d.Nodes {
		if n := &d.Nodes[i]; n.Rank == 1 && n.Name != d.Node {
			names = append(names, n.Name)
		}
	}
	return append(names, d.Node)
}

// place places the pod on the node, and returns the node before and after that.
func (p *planner) place(ctx context.Context, pod *corev1.Pod, name string) (before, after LoadedNode, err error) {
	if before, err = p.lookAt(ctx, name); err != nil {
		return before, after, err
	}
	placed := boundTo(pod, name, p.Now)
	if err := p.Scheduler.Add(placed); err != nil {
		return before, after, err
	}
	p.undo = append(p.undo, func() error { return p.Scheduler.Remove(placed) })
	after, err = p.lookAt(ctx, name)
	return before, after, err
}

func (p *planner) accept(c *candidate, m Move) {
	owner := metav1.GetControllerOfNoCopy(c.pod)
	m.Namespace, m.Pod, m.UID, m.Disruption = c.pod.Namespace, c.pod.Name, c.pod.UID, c.disruption
	m.Owner, m.OwnerUID, m.Workload = Owner{owner.Kind, owner.Name}, owner.UID, workloadOf(c.pod, owner)
	p.Moves = append(p.Moves, m)
	p.perNamespace[m.Namespace]++
	p.perHour[m.Namespace]++
	p.workloads[m.Workload].unavailable++
	for _, b := range p.budgets {
		if b.covers(c.pod) {
			b.allowed--
		}
	}
}

// replacementOf returns the pod as its controller creates it again: without its node, and with another name.
func replacementOf(pod *corev1.Pod, now time.Time) *corev1.Pod {
	again := sim.Recreate(pod)
	again.Name, again.UID = pod.Name+"-Moved", pod.UID+"-moved" // no pod's name has upper case
	again.CreationTimestamp = metav1.Time{Time: now}
	return again
}

func boundTo(pod *corev1.Pod, node string, now time.Time) *corev1.Pod {
	bound := *pod
	bound.Spec.NodeName = node
	bound.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: now}},
	}
	return &bound
}

// Reasons returns the reasons of Stay, most frequent first.
func (p *Plan) Reasons() []Reason {
	return slices.SortedFunc(maps.Keys(p.Stay), func(a, b Reason) int {
		return cmp.Or(cmp.Compare(p.Stay[b], p.Stay[a]), cmp.Compare(a, b))
	})
}

// Package whatif places pods in a cluster in memory, after it adds or drains nodes, or adds or evicts pods.
//
// The order of changes is fixed:
//   - nodes are added
//   - nodes are drained, and namespaces evicted
//   - pods are placed one after the other, by priority; those of one priority in the order of Plan
//
// No time passes: load does not age, and no measurement covers placed pods.
package whatif

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/kubernetes/pkg/controller"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/manifest"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

// Bounds of scenarios.
const (
	MaxPods  = 100_000
	MaxNodes = 10_000
)

// Scenario lists the changes to try.
type Scenario struct {
	// Manifest holds pods to place; nil if there are none. Admission changes them as the API server would.
	Manifest  *manifest.Manifest
	Admission *manifest.Admission
	// Replicas replaces the replicas of the manifest's only workload; nil keeps them.
	Replicas *int
	// Fewer is the number of existing pods of the only workload to remove, pending ones first. Then no pod of the manifest is placed.
	Fewer int
	// Drain are names of nodes that are cordoned, and whose pods are evicted.
	Drain []string
	// EvictAllIn are namespaces whose pods are evicted, on all nodes.
	EvictAllIn []string
	// AddNodes is the number of copies of the node Like that are added.
	AddNodes int
	Like     string
	Pending  bool
	// SchedulerName, if not empty, is the profile that places all pods, instead of the one in their spec.
	SchedulerName string
}

// Plan has the changes of a Scenario to a cluster, and the pods to place then. It may run on several clusters of the same objects.
type Plan struct {
	// added are objects to add, nodes first. cordoned replace nodes of the same name.
	added    []runtime.Object
	newNodes map[string]bool
	cordoned []*corev1.Node
	evicted  []*corev1.Pod
	queue    []queued
	// SchedulerName is that of the Scenario.
	SchedulerName string
	// Changes describe the changes, and Notes what may differ in the real cluster, one line each.
	Changes, Notes []string
	// Lost are the evicted pods that have no controller, as namespace/name: nobody recreates them.
	Lost []string
}

type queued struct {
	pod *corev1.Pod
	// owner names the workload, such as "Deployment shop/web".
	owner string
	// inCluster reports whether the pod waits in the cluster already.
	inCluster bool
	// alike reports whether all pods of the same owner fit the same nodes.
	alike bool
}

type planner struct {
	*Plan
	creator *manifest.Creator
	nodes   map[string]*corev1.Node
	pods    []*corev1.Pod
	csi     map[string]*storagev1.CSINode
	budgets []*policyv1.PodDisruptionBudget
	// namespaces include the namespaces of pods: Namespace objects may not be readable.
	namespaces map[string]bool
}

// NewPlan returns the scenario's plan for a cluster of the given objects. An error says how to correct the scenario.
func NewPlan(objects []runtime.Object, s Scenario) (*Plan, error) {
	p := newPlanner(objects)
	p.SchedulerName = s.SchedulerName
	if err := p.addNodes(s.AddNodes, s.Like); err != nil {
		return nil, err
	}
	if err := p.evict(s.Drain, s.EvictAllIn); err != nil {
		return nil, err
	}
	if s.Pending {
		p.addPending("waiting pod", func(*corev1.Pod) bool { return true })
	}
	if s.Manifest != nil {
		if err := p.addManifest(&s); err != nil {
			return nil, err
		}
	}
	if !s.Pending {
		p.addGroups()
	}
	p.added = append(p.added, p.creator.Added...)
	p.Notes = p.creator.Notes
	sortByPriority(p.queue)
	return p.Plan, nil
}

func newPlanner(objects []runtime.Object) *planner {
	p := &planner{
		Plan: &Plan{newNodes: map[string]bool{}}, creator: manifest.NewCreator(objects),
		nodes: map[string]*corev1.Node{}, csi: map[string]*storagev1.CSINode{}, namespaces: map[string]bool{},
	}
	for _, object := range objects {
		switch o := object.(type) {
		case *corev1.Node:
			p.nodes[o.Name] = o
		case *corev1.Pod:
			p.pods = append(p.pods, o)
			p.namespaces[o.Namespace] = true
		case *corev1.Namespace:
			p.namespaces[o.Name] = true
		case *storagev1.CSINode:
			p.csi[o.Name] = o
		case *policyv1.PodDisruptionBudget:
			p.budgets = append(p.budgets, o)
		}
	}
	return p
}

func (p *Plan) change(format string, args ...any) {
	p.Changes = append(p.Changes, fmt.Sprintf(format, args...))
}

func (p *planner) addNodes(count int, like string) error {
	if count == 0 {
		return nil
	}
	model, ok := p.nodes[like]
	if !ok {
		return fmt.Errorf("there is no node %q to copy", like)
	}
	if count < 0 || count > MaxNodes {
		return fmt.Errorf("%d nodes to add; write from 1 to %d", count, MaxNodes)
	}
	var pods []runtime.Object
	for i := 1; len(p.newNodes) < count; i++ {
		name := fmt.Sprintf("%s-new-%d", like, i)
		if p.nodes[name] != nil {
			continue
		}
		p.newNodes[name] = true
		node := model.DeepCopy()
		node.Name, node.UID, node.Spec.ProviderID, node.Spec.Unschedulable = name, types.UID("what-if/"+name), "", false
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, sim.IsCordon)
		if node.Labels[corev1.LabelHostname] != "" {
			node.Labels[corev1.LabelHostname] = name
		}
		p.added = append(p.added, node)
		if drivers := p.csi[like]; drivers != nil {
			copied := drivers.DeepCopy()
			copied.Name = name
			p.added = append(p.added, copied)
		}
		for _, pod := range p.pods {
			if pod.Spec.NodeName == like && sim.LeavesWithNode(pod) != "" && !podusage.HasEnded(pod) {
				copied := recreate(pod)
				copied.Name, copied.UID, copied.Spec.NodeName = pod.Name+"-"+name, types.UID("what-if/"+pod.Name+"/"+name), name
				pods = append(pods, copied)
			}
		}
	}
	p.added = append(p.added, pods...)
	change := fmt.Sprintf("%s like %s added", text.Count(count, "node"), like)
	if len(pods) > 0 {
		change += fmt.Sprintf(", each with %s of DaemonSets and static pods", text.Count(len(pods)/count, "pod"))
	}
	p.Changes = append(p.Changes, change)
	p.creator.Note("New nodes count as idle, plus the expected usage of their DaemonSet and static pods. " +
		"The scheduler uses their requests until they are measured.")
	return nil
}

func recreate(pod *corev1.Pod) *corev1.Pod {
	again := sim.Recreate(pod)
	again.UID = "what-if/" + pod.UID
	return again
}

func (p *planner) cordon(names []string) (drained map[string]bool, err error) {
	drained = map[string]bool{}
	for _, name := range names {
		node, ok := p.nodes[name]
		switch {
		case !ok:
			return nil, fmt.Errorf("there is no node %q to drain", name)
		case drained[name]:
			continue
		}
		drained[name] = true
		p.cordoned = append(p.cordoned, sim.Cordoned(node))
	}
	return drained, nil
}

func (p *planner) evict(drain, namespaces []string) error {
	drained, err := p.cordon(drain)
	if err != nil {
		return err
	}
	for _, namespace := range namespaces {
		if !p.namespaces[namespace] {
			return fmt.Errorf("there is no namespace %q to evict pods in", namespace)
		}
	}
	for _, pod := range p.pods {
		inNamespace := slices.Contains(namespaces, pod.Namespace)
		if pod.Spec.NodeName == "" || sim.LeavesWithNode(pod) != "" || !drained[pod.Spec.NodeName] && !inNamespace {
			continue
		}
		p.evicted = append(p.evicted, pod)
		switch {
		case ends(pod): // it is not created again
		case metav1.GetControllerOfNoCopy(pod) == nil:
			p.Lost = append(p.Lost, pod.Namespace+"/"+pod.Name)
		default:
			p.queue = append(p.queue, queued{pod: recreate(pod), owner: ownerOf(pod)})
		}
	}
	p.noteEvictions(namespaces)
	return nil
}

// ends reports whether the pod has ended, or will soon.
func ends(pod *corev1.Pod) bool { return podusage.HasEnded(pod) || pod.DeletionTimestamp != nil }

func (p *planner) noteEvictions(namespaces []string) {
	for _, node := range p.cordoned {
		p.changeEvicted(node.Name+" drained", "elsewhere", func(pod *corev1.Pod) bool { return pod.Spec.NodeName == node.Name })
	}
	for i, namespace := range namespaces {
		if !slices.Contains(namespaces[:i], namespace) {
			p.changeEvicted("namespace "+namespace, "again", func(pod *corev1.Pod) bool { return pod.Namespace == namespace })
		}
	}
	if len(p.Lost) > 0 {
		p.creator.Note("%s without a controller would be lost: nobody recreates them: %s",
			text.Count(len(p.Lost), "pod"), text.FirstN(p.Lost))
	}
	p.noteBudgets()
}

// changeEvicted says what becomes of the selected evicted pods.
func (p *planner) changeEvicted(what, where string, selected func(*corev1.Pod) bool) {
	pods, lost := 0, 0
	for _, pod := range p.evicted {
		if selected(pod) && !ends(pod) {
			pods++
			if metav1.GetControllerOfNoCopy(pod) == nil {
				lost++
			}
		}
	}
	change := fmt.Sprintf("%s: %s evicted, %d to place %s", what, text.Count(pods, "pod"), pods-lost, where)
	if lost > 0 {
		change += fmt.Sprintf(", %d lost", lost)
	}
	p.Changes = append(p.Changes, change)
}

func (p *planner) noteBudgets() {
	for _, budget := range p.budgets {
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err != nil {
			continue
		}
		matching := 0
		for _, pod := range p.evicted {
			if pod.Namespace == budget.Namespace && !podusage.HasEnded(pod) && selector.Matches(labels.Set(pod.Labels)) {
				matching++
			}
		}
		if allowed := int(budget.Status.DisruptionsAllowed); matching > allowed {
			p.creator.Note("PodDisruptionBudget %s/%s allows %d evictions of %s now: the others wait until replacements are ready",
				budget.Namespace, budget.Name, allowed, text.Count(matching, "pod"))
		}
	}
}

// ownerOf names the pod's controller, or the pod itself. Anyone who can create pods can write any text into an ownerReference.
func ownerOf(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return fmt.Sprintf("%s %s/%s", text.Excerpt(owner.Kind), pod.Namespace, text.Excerpt(owner.Name))
	}
	return fmt.Sprintf("Pod %s/%s", pod.Namespace, pod.Name)
}

func (p *planner) addPending(what string, selected func(*corev1.Pod) bool) {
	count := 0
	for _, pod := range p.pods {
		if !cluster.Waits(pod) || !selected(pod) {
			continue
		}
		count++
		waiting := pod.DeepCopy()
		waiting.Status.NominatedNodeName = ""
		p.queue = append(p.queue, queued{pod: waiting, owner: ownerOf(pod), inCluster: true})
	}
	p.change("%s to place", text.Count(count, what))
}

// addGroups queues the waiting pods of the groups of queued pods, which are placed together with them.
func (p *planner) addGroups() {
	groups := map[string]bool{}
	for i := range p.queue {
		if key := cluster.GroupKey(p.queue[i].pod); key != "" {
			groups[key] = true
		}
	}
	if len(groups) > 0 {
		p.addPending("waiting group member", func(pod *corev1.Pod) bool { return groups[cluster.GroupKey(pod)] })
	}
}

// ownPods returns the pods to place that are not in the cluster.
func (p *Plan) ownPods() (pods []*corev1.Pod) {
	for i := range p.queue {
		if !p.queue[i].inCluster {
			pods = append(pods, p.queue[i].pod)
		}
	}
	return pods
}

// countGroups counts the pods of groups: those of the cluster, and those to place.
func (p *Plan) countGroups(groups cluster.PodGroups, s *sim.Scheduler) error {
	if len(groups) == 0 {
		return nil
	}
	pods, err := s.Informers().Core().V1().Pods().Lister().List(labels.Everything())
	groups.Count(append(pods, p.ownPods()...))
	return err
}

func (p *planner) addManifest(s *Scenario) error {
	workloads := s.Manifest.Workloads
	if len(workloads) == 0 {
		return fmt.Errorf("%s has a pod for each node, which its controller places",
			manifest.Of(s.Manifest.DaemonSets[0]))
	}
	if (s.Replicas != nil || s.Fewer > 0) && len(workloads) > 1 {
		return fmt.Errorf("--replicas, --fewer: the file has several workloads (%s and %s); pass a file with one",
			workloads[0], workloads[1])
	}
	if s.Fewer > 0 {
		return p.scaleDown(workloads[0], s.Fewer)
	}
	for _, service := range s.Manifest.Services {
		p.creator.Add(service)
	}
	p.creator.NoteIgnored(s.Manifest)
	total := 0
	for _, w := range workloads {
		replicas := w.Replicas
		if s.Replicas != nil {
			replicas = *s.Replicas
		}
		if total += replicas; replicas < 0 || total > MaxPods {
			return fmt.Errorf("%s: %d replicas; write 0 or more, and at most %d in all", w, replicas, MaxPods)
		}
		if err := p.addWorkload(w, replicas, cmp.Or(s.Admission, &manifest.Admission{})); err != nil {
			return err
		}
	}
	return nil
}

func (p *planner) addWorkload(w *manifest.Workload, replicas int, admission *manifest.Admission) error {
	if running := len(p.podsOf(w)); running > 0 {
		p.creator.Note("%s has %s already, and gets %d more", w, text.Count(running, "pod"), replicas)
	}
	pods, alike, err := p.creator.Create(w, replicas, admission)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		p.queue = append(p.queue, queued{pod: pod, owner: w.String(), alike: alike})
	}
	p.change("%s of %s to place", text.Count(replicas, "pod"), w)
	return nil
}

// sortByPriority sorts as the scheduler's queue does; pods of one priority stay in their order.
func sortByPriority(queue []queued) {
	slices.SortStableFunc(queue, func(a, b queued) int {
		return cmp.Compare(corev1helpers.PodPriority(b.pod), corev1helpers.PodPriority(a.pod))
	})
}

// SchedulerNames returns the schedulers of the queued pods, in the queue's order.
func (p *Plan) SchedulerNames() []string {
	if p.SchedulerName != "" {
		return []string{p.SchedulerName}
	}
	var names []string
	for i := range p.queue {
		if name := p.queue[i].pod.Spec.SchedulerName; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Evicts reports whether pods are evicted.
func (p *Plan) Evicts() bool { return len(p.evicted) > 0 }

// scaleDown removes pods of the workload, in the order in which its controller deletes them.
func (p *planner) scaleDown(w *manifest.Workload, fewer int) error {
	pods := p.podsOf(w)
	if fewer > len(pods) {
		return fmt.Errorf("%s: %s fewer, but it has %d; write at most that", w, text.Count(fewer, "pod"), len(pods))
	}
	sortForDeletion(w, pods)
	removed := map[types.UID]bool{}
	for _, pod := range pods[:fewer] {
		removed[pod.UID], removed[recreate(pod).UID] = true, true // it may wait, or be evicted by a drain
	}
	p.queue = slices.DeleteFunc(p.queue, func(q queued) bool { return removed[q.pod.UID] })
	p.evicted = slices.DeleteFunc(p.evicted, func(pod *corev1.Pod) bool { return removed[pod.UID] })
	p.evicted = append(p.evicted, pods[:fewer]...)
	p.change("%s of %s removed, %d left", text.Count(fewer, "pod"), w, len(pods)-fewer)
	return nil
}

// sortForDeletion sorts pods in the order in which the workload's controller deletes them, and pods of one rank by name.
func sortForDeletion(w *manifest.Workload, pods []*corev1.Pod) {
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	if w.Kind == "StatefulSet" { // the highest ordinal first: a longer name has a higher one
		slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
			return cmp.Or(cmp.Compare(len(b.Name), len(a.Name)), strings.Compare(b.Name, a.Name))
		})
		return
	}
	onNode := map[string]int{}
	for _, pod := range pods {
		onNode[pod.Spec.NodeName]++
	}
	ranks := make([]int, len(pods))
	for i, pod := range pods {
		ranks[i] = onNode[pod.Spec.NodeName]
	}
	sort.Stable(controller.ActivePodsWithRanks{Pods: pods, Rank: ranks, Now: metav1.Time{Time: time.Now()}})
}

func (p *planner) podsOf(w *manifest.Workload) (pods []*corev1.Pod) {
	for _, pod := range p.pods {
		if pod.Namespace == w.Namespace && !ends(pod) && w.Owns(pod) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// Package podindex counts the pods of nodes by their labels, and keeps the counts from one scheduling cycle to the next.
package podindex

import (
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
)

// Index counts the pods of one scheduler's nodes, for the plugins of all its profiles. The goroutine of the scheduling cycle
// changes the index, in PreFilter and PreScore. Other goroutines read it in Score alone, so PreFilter and PreScore of any pod must
// not overlap with Score of any other.
type Index struct {
	// Rows are the nodes of the last list, in its order. rowOf are their positions, and nodes are by name.
	Rows  []Row
	rowOf map[*framework.NodeInfo]int
	nodes map[string]*Node
	// classes are by their keys. labeled has them by each of their labels, and by the label without name of their namespace. termed
	// has the classes with terms by a label that a pod which they match must have.
	classes         map[string]*Class
	labeled, termed map[label]map[*Class]struct{}
	// unsure reports that pods may have changed without a new generation since the last call of Sync.
	unsure bool
	// cycle and list are those of the last call of Sync. Between two calls with both the same, the nodes must not change.
	cycle fwk.CycleState
	list  []fwk.NodeInfo
	// Topologies counts the times that nodes, their labels or their taints changed. topologies are the nodes' values of labels.
	Topologies int
	topologies map[string]*Topology
	// Marks counts the calls of Mark. found are the nodes of the last call of Count.
	Marks int
	found []*Node
	// visits counts the calls of WithTerms.
	visits int
	// key and names are reused.
	key   []byte
	names []string
}

// Row is what Sync compares of each node. The rows are together in memory: most nodes are the same as before.
type Row struct {
	info       fwk.NodeInfo
	generation int64
	*Node
}

// Node is a node, with the pods that are counted on it.
type Node struct {
	Object *corev1.Node
	// Row is the position in the last list.
	Row int
	// generation is that of the NodeInfo when the pods were counted.
	generation int64
	pods       []countedPod
	// Matching are the numbers of pods that match the constraints of the decision with the number mark.
	Matching []int
	mark     int
}

type countedPod struct {
	pod   *corev1.Pod
	class *Class
}

// Class is all pods of a namespace with the same labels and the same affinity to pods, terminating or not.
type Class struct {
	Namespace   string
	Labels      labels.Set
	Terminating bool
	// Terms are the affinity of its pods to pods; nil for none.
	Terms *Terms
	// On are the numbers of its pods by node.
	On map[*Node]int

	key   string
	visit int
}

type label struct{ namespace, name, value string }

// New returns an index without nodes.
func New() *Index {
	return &Index{
		classes: map[string]*Class{}, labeled: map[label]map[*Class]struct{}{}, termed: map[label]map[*Class]struct{}{},
	}
}

// StateOf returns what the plugin wrote for the cycle; nil if the stock plugin decides, or nothing was written.
func StateOf[T fwk.StateData](state fwk.CycleState, key fwk.StateKey) (s T) {
	if data, err := state.Read(key); err == nil {
		return data.(T)
	}
	return s
}

// Sync counts the pods of all given nodes. A generation is of one state of one node, so a node with the same one has the same pods.
// Only in a cycle of a pod group, pods come and go without a new generation.
func (ix *Index) Sync(state fwk.CycleState, nodes []fwk.NodeInfo) {
	podGroup := minor.IsPodGroupCycle(state)
	unsure := podGroup || ix.unsure
	if !unsure && state == ix.cycle && len(nodes) == len(ix.list) && len(nodes) > 0 && &nodes[0] == &ix.list[0] {
		return
	}
	ix.unsure, ix.cycle, ix.list = podGroup, state, nodes
	if !ix.updateAll(nodes, unsure) {
		ix.relist(nodes)
		ix.updateAll(nodes, unsure)
	}
}

// updateAll updates the rows of changed nodes, or of all nodes if unsure. It ends at the first node that is not the row's.
func (ix *Index) updateAll(nodes []fwk.NodeInfo, unsure bool) bool {
	if len(nodes) != len(ix.Rows) {
		return false
	}
	for i, info := range nodes {
		r := &ix.Rows[i]
		if r.info != info {
			return false
		}
		if unsure || r.generation != info.GetGeneration() {
			ix.update(r)
		}
	}
	return true
}

// relist makes the rows those of the nodes, and forgets all others.
func (ix *Index) relist(nodes []fwk.NodeInfo) {
	ix.forgetTopologies()
	clear(ix.Rows)
	clear(ix.found[:cap(ix.found)]) // else they keep the pods of nodes that are gone
	ix.Rows = slices.Grow(ix.Rows[:0], len(nodes))[:len(nodes)]
	ix.rowOf = make(map[*framework.NodeInfo]int, len(nodes))
	gone := ix.nodes
	ix.nodes = make(map[string]*Node, len(nodes))
	for i, info := range nodes {
		name := info.Node().Name
		n, ok := gone[name]
		if !ok {
			n = &Node{generation: -1}
		}
		delete(gone, name)
		ix.nodes[name], n.Row = n, i
		if own, ok := info.(*framework.NodeInfo); ok {
			ix.rowOf[own] = i
		}
		ix.Rows[i] = Row{info: info, generation: n.generation, Node: n}
	}
	for _, n := range gone {
		for _, p := range n.pods {
			ix.remove(n, p.class)
		}
	}
}

// update counts only pods at positions that other pods had before.
func (ix *Index) update(r *Row) {
	n, pods := r.Node, r.info.GetPods()
	r.generation = r.info.GetGeneration()
	n.generation = r.generation
	if object := r.info.Node(); object != n.Object {
		if n.Object == nil || !maps.Equal(n.Object.Labels, object.Labels) ||
			!slices.EqualFunc(n.Object.Spec.Taints, object.Spec.Taints, sameTaint) {
			ix.forgetTopologies()
		}
		n.Object = object
	}
	for i, info := range pods {
		pod := info.GetPod()
		if i == len(n.pods) {
			n.pods = append(n.pods, countedPod{})
		}
		if p := &n.pods[i]; p.pod != pod {
			before := p.class
			p.pod, p.class = pod, ix.add(n, info)
			ix.remove(n, before)
		}
	}
	for _, p := range n.pods[len(pods):] {
		ix.remove(n, p.class)
	}
	clear(n.pods[len(pods):])
	n.pods = n.pods[:len(pods)]
}

func (ix *Index) forgetTopologies() {
	ix.Topologies++
	clear(ix.topologies)
}

func sameTaint(a, b corev1.Taint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect
}

// add counts the pod on the node, and returns its class.
func (ix *Index) add(n *Node, info fwk.PodInfo) *Class {
	pod := info.GetPod()
	key := ix.keyOf(pod)
	c, ok := ix.classes[string(key)]
	if !ok {
		c = &Class{
			key: string(key), Namespace: pod.Namespace, Labels: pod.Labels, Terminating: pod.DeletionTimestamp != nil,
			Terms: termsOf(info), On: map[*Node]int{},
		}
		ix.classes[c.key] = c
		for l := range c.eachLabel {
			list(ix.labeled, l, c)
		}
		ix.listTerms(c)
	}
	c.On[n]++
	return c
}

// keyOf returns the key of the pod's class, until the next call.
func (ix *Index) keyOf(pod *corev1.Pod) []byte {
	ix.names = ix.names[:0]
	for name := range pod.Labels {
		ix.names = append(ix.names, name)
	}
	slices.Sort(ix.names)
	ix.key = append(ix.key[:0], pod.Namespace...)
	for _, name := range ix.names { // neither names nor values of labels have a zero byte
		ix.key = append(append(append(append(ix.key, 0), name...), 0), pod.Labels[name]...)
	}
	if pod.DeletionTimestamp != nil {
		ix.key = append(ix.key, 0, 0)
	}
	if HasTerms(pod) {
		text, err := json.Marshal([]any{pod.Spec.Affinity.PodAffinity, pod.Spec.Affinity.PodAntiAffinity})
		if err != nil {
			panic(err) // these types have no value that cannot be written
		}
		ix.key = append(append(ix.key, 0, 0, 0), text...)
	}
	return ix.key
}

// remove removes one pod of a class from a node; nil is no pod.
func (ix *Index) remove(n *Node, c *Class) {
	if c == nil {
		return
	}
	if c.On[n]--; c.On[n] > 0 {
		return
	}
	if delete(c.On, n); len(c.On) > 0 {
		return
	}
	delete(ix.classes, c.key)
	for l := range c.eachLabel {
		unlist(ix.labeled, l, c)
	}
	ix.unlistTerms(c)
}

func list(lists map[label]map[*Class]struct{}, l label, c *Class) {
	if lists[l] == nil {
		lists[l] = map[*Class]struct{}{}
	}
	lists[l][c] = struct{}{}
}

func unlist(lists map[label]map[*Class]struct{}, l label, c *Class) {
	if delete(lists[l], c); len(lists[l]) == 0 {
		delete(lists, l)
	}
}

// eachLabel yields the labels of the class, and the label without name.
func (c *Class) eachLabel(yield func(label) bool) {
	if !yield(label{namespace: c.Namespace}) {
		return
	}
	for name, value := range c.Labels {
		if !yield(label{c.Namespace, name, value}) {
			return
		}
	}
}

// Candidates are all classes of the namespace that the selector can match: the fewest that have a label which it requires.
func (ix *Index) Candidates(namespace string, selector labels.Selector) map[*Class]struct{} {
	requirements, selectable := selector.Requirements()
	if !selectable {
		return nil
	}
	fewest := ix.labeled[label{namespace: namespace}]
	for i := range requirements {
		name := requirements[i].Key()
		if value, ok := selector.RequiresExactMatch(name); ok {
			if with := ix.labeled[label{namespace, name, value}]; len(with) < len(fewest) {
				fewest = with
			}
		}
	}
	return fewest
}

// Mark begins a decision: no pod matches on any node. It returns the number of the decision.
func (ix *Index) Mark() int {
	ix.Marks++
	return ix.Marks
}

// Count counts the pods of the namespace that the selector of one of the decision's constraints matches, for CountOn. It returns
// the nodes with any, until the next call. As for the stock PodTopologySpread, terminating pods do not count.
func (ix *Index) Count(namespace string, selector labels.Selector, constraint, constraints int) []*Node {
	ix.found = ix.found[:0]
	if minor.EmptySelectsNothing && selector.Empty() {
		return nil
	}
	for c := range ix.Candidates(namespace, selector) {
		if c.Terminating || !selector.Matches(c.Labels) {
			continue
		}
		for n, count := range c.On {
			if n.mark != ix.Marks {
				n.mark, n.Matching = ix.Marks, slices.Grow(n.Matching[:0], constraints)[:constraints]
				clear(n.Matching)
			}
			if n.Matching[constraint] == 0 {
				ix.found = append(ix.found, n)
			}
			n.Matching[constraint] += count
		}
	}
	return ix.found
}

// CountOn returns the number of pods that match the decision's constraint on the node of a row.
func (ix *Index) CountOn(mark, constraint, row int) int {
	if n := ix.Rows[row].Node; n.mark == mark {
		return n.Matching[constraint]
	}
	return 0
}

// IsCheap reports whether looking at so many classes is cheaper than looking at all pods of all nodes once for each selector. Pods
// with labels of their own, such as those of a StatefulSet, are a class each.
func (ix *Index) IsCheap(classes, selectors int) bool {
	return classes <= max(len(ix.Rows), cheapClasses)*selectors
}

// cheapClasses are so few that any cluster's pods are counted by them.
const cheapClasses = 32

// Find returns the row of a node of the last list. A node of another snapshot has none.
func (ix *Index) Find(info fwk.NodeInfo) (int, bool) {
	own, ok := info.(*framework.NodeInfo)
	if !ok {
		return 0, false
	}
	row, ok := ix.rowOf[own]
	return row, ok
}

// Topology has the values of a label on the nodes of the last list, as numbers: nodes and their labels are far apart in memory.
type Topology struct {
	Key string
	// Domains are the numbers of the values by row. A node without the label has that of the empty value, and is not Labeled.
	Domains []int
	Labeled []bool
	ByValue map[string]int
}

// maxTopologies bounds the labels whose values are kept: a tenant's pods can name any.
const maxTopologies = 100

// Topology returns the values of a label.
func (ix *Index) Topology(key string) *Topology {
	t, ok := ix.topologies[key]
	if ok {
		return t
	}
	t = &Topology{Key: key, Domains: make([]int, len(ix.Rows)), Labeled: make([]bool, len(ix.Rows)), ByValue: map[string]int{}}
	for i := range ix.Rows {
		t.Domains[i], t.Labeled[i] = t.Add(ix.Rows[i].Object)
	}
	if ix.topologies == nil || len(ix.topologies) >= maxTopologies {
		ix.topologies = map[string]*Topology{}
	}
	ix.topologies[key] = t
	return t
}

// Add returns the number of the node's value, which may be new, and whether the node has the label.
func (t *Topology) Add(object *corev1.Node) (domain int, labeled bool) {
	if domain, labeled = t.Find(object); domain == Unknown {
		domain = len(t.ByValue)
		t.ByValue[object.Labels[t.Key]] = domain
	}
	return domain, labeled
}

// Unknown is the domain of a node with a value that no known node has.
const Unknown = -1

// Find is Add for concurrent use: a new value has the domain Unknown.
func (t *Topology) Find(object *corev1.Node) (domain int, labeled bool) {
	value, labeled := object.Labels[t.Key]
	domain, ok := t.ByValue[value]
	if !ok {
		return Unknown, labeled
	}
	return domain, labeled
}

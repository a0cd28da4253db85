package incrementalpodtopologyspread

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// index counts the pods of nodes by their labels, and keeps the counts from one decision to the next. The goroutine of the
// scheduling cycle changes it, in PreFilter and PreScore. Other goroutines read it in Score alone, so PreFilter and PreScore of any
// pod must not overlap with Score of any other.
type index struct {
	// rows are the nodes of the last list, in its order. rowOf are their positions, and nodes are by name.
	rows  []row
	rowOf map[*framework.NodeInfo]int
	nodes map[string]*node
	// classes are by their keys. labeled has them by each of their labels, and by the label without name of their namespace.
	classes map[string]*class
	labeled map[label]map[*class]struct{}
	// unsure reports that pods may have changed without a new generation since the last call of sync.
	unsure bool
	// topologies are the nodes' values of labels, and domains the numbers of domains of constraints, until nodes or their labels or
	// taints change.
	topologies map[string]*topology
	domains    map[domainsKey]int
	// marks counts the calls of mark. found are the nodes of the last call of matches.
	marks int
	found []*node
	// key and names are reused.
	key   []byte
	names []string
}

// row is what sync compares of each node. The rows are together in memory: most nodes are the same as before.
type row struct {
	info       fwk.NodeInfo
	generation int64
	node       *node
}

// node is a node, with the pods that are counted on it.
type node struct {
	object *corev1.Node
	// row is the position in the last list.
	row int
	// generation is that of the NodeInfo when the pods were counted.
	generation int64
	pods       []countedPod
	// matching are the numbers of pods that match the constraints of the decision with the number mark.
	matching []int
	mark     int
}

// countedPod is a pod, and the class in which it counts. Terminating pods have none.
type countedPod struct {
	pod   *corev1.Pod
	class *class
}

// class is all pods of a namespace with the same labels.
type class struct {
	key, namespace string
	labels         labels.Set
	// on are the numbers of its pods by node.
	on map[*node]int
}

// label is a label of pods in a namespace.
type label struct{ namespace, name, value string }

func newIndex() *index {
	return &index{classes: map[string]*class{}, labeled: map[label]map[*class]struct{}{}}
}

// sync counts the pods of all given nodes. A generation is of one state of one node, so a node with the same one has the same pods.
// Only in a cycle of a pod group, pods come and go without a new generation.
func (ix *index) sync(nodes []fwk.NodeInfo, podGroup bool) {
	unsure := podGroup || ix.unsure
	ix.unsure = podGroup
	same := len(nodes) == len(ix.rows)
	for i := 0; same && i < len(nodes); i++ {
		r := &ix.rows[i]
		if same = r.info == nodes[i]; same && (unsure || r.generation != r.info.GetGeneration()) {
			ix.update(r)
		}
	}
	if same {
		return
	}
	ix.relist(nodes)
	for i := range ix.rows {
		if r := &ix.rows[i]; unsure || r.generation != r.info.GetGeneration() {
			ix.update(r)
		}
	}
}

// relist makes the rows those of the nodes, and forgets all others.
func (ix *index) relist(nodes []fwk.NodeInfo) {
	ix.forgetTopologies()
	clear(ix.rows)
	ix.rows = slices.Grow(ix.rows[:0], len(nodes))[:len(nodes)]
	ix.rowOf = make(map[*framework.NodeInfo]int, len(nodes))
	gone := ix.nodes
	ix.nodes = make(map[string]*node, len(nodes))
	for i, info := range nodes {
		name := info.Node().Name
		n, ok := gone[name]
		if !ok {
			n = &node{generation: -1}
		}
		delete(gone, name)
		ix.nodes[name], n.row = n, i
		if own, ok := info.(*framework.NodeInfo); ok {
			ix.rowOf[own] = i
		}
		ix.rows[i] = row{info: info, generation: n.generation, node: n}
	}
	for _, n := range gone {
		for _, p := range n.pods {
			ix.remove(n, p.class)
		}
	}
}

// update counts only pods at positions that other pods had before.
func (ix *index) update(r *row) {
	n, pods := r.node, r.info.GetPods()
	r.generation = r.info.GetGeneration()
	n.generation = r.generation
	if object := r.info.Node(); object != n.object {
		if n.object == nil || !maps.Equal(n.object.Labels, object.Labels) ||
			!slices.EqualFunc(n.object.Spec.Taints, object.Spec.Taints, sameTaint) {
			ix.forgetTopologies()
		}
		n.object = object
	}
	for i, info := range pods {
		pod := info.GetPod()
		if i == len(n.pods) {
			n.pods = append(n.pods, countedPod{})
		}
		if p := &n.pods[i]; p.pod != pod {
			before := p.class
			p.pod, p.class = pod, ix.add(n, pod)
			ix.remove(n, before)
		}
	}
	for _, p := range n.pods[len(pods):] {
		ix.remove(n, p.class)
	}
	clear(n.pods[len(pods):])
	n.pods = n.pods[:len(pods)]
}

func (ix *index) forgetTopologies() {
	clear(ix.topologies)
	clear(ix.domains)
}

func sameTaint(a, b corev1.Taint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect
}

// add counts the pod on the node, and returns its class.
func (ix *index) add(n *node, pod *corev1.Pod) *class {
	if pod.DeletionTimestamp != nil {
		return nil
	}
	ix.names = ix.names[:0]
	for name := range pod.Labels {
		ix.names = append(ix.names, name)
	}
	slices.Sort(ix.names)
	ix.key = append(ix.key[:0], pod.Namespace...)
	for _, name := range ix.names { // neither names nor values of labels have a zero byte
		ix.key = append(append(append(append(ix.key, 0), name...), 0), pod.Labels[name]...)
	}
	c, ok := ix.classes[string(ix.key)]
	if !ok {
		c = &class{key: string(ix.key), namespace: pod.Namespace, labels: pod.Labels, on: map[*node]int{}}
		ix.classes[c.key] = c
		for l := range c.eachLabel {
			if ix.labeled[l] == nil {
				ix.labeled[l] = map[*class]struct{}{}
			}
			ix.labeled[l][c] = struct{}{}
		}
	}
	c.on[n]++
	return c
}

// remove removes one pod of a class from a node; nil is a pod that did not count.
func (ix *index) remove(n *node, c *class) {
	if c == nil {
		return
	}
	if c.on[n]--; c.on[n] > 0 {
		return
	}
	if delete(c.on, n); len(c.on) > 0 {
		return
	}
	delete(ix.classes, c.key)
	for l := range c.eachLabel {
		if delete(ix.labeled[l], c); len(ix.labeled[l]) == 0 {
			delete(ix.labeled, l)
		}
	}
}

// eachLabel yields the labels of the class, and the label without name.
func (c *class) eachLabel(yield func(label) bool) {
	if !yield(label{namespace: c.namespace}) {
		return
	}
	for name, value := range c.labels {
		if !yield(label{c.namespace, name, value}) {
			return
		}
	}
}

// candidates are all classes that the selector can match: the fewest that have a label which it requires.
func (ix *index) candidates(namespace string, selector labels.Selector) map[*class]struct{} {
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

// mark begins a decision: no pod matches on any node. It returns the number of the decision.
func (ix *index) mark() int {
	ix.marks++
	return ix.marks
}

// matches counts the pods of the namespace that the selector of one of the decision's constraints matches, for countOn. It returns
// the nodes with any, until the next call. As for the stock plugin, an empty selector matches none.
func (ix *index) matches(namespace string, selector labels.Selector, constraint, constraints int) []*node {
	ix.found = ix.found[:0]
	if selector.Empty() {
		return nil
	}
	for c := range ix.candidates(namespace, selector) {
		if !selector.Matches(c.labels) {
			continue
		}
		for n, count := range c.on {
			if n.mark != ix.marks {
				n.mark, n.matching = ix.marks, slices.Grow(n.matching[:0], constraints)[:constraints]
				clear(n.matching)
			}
			if n.matching[constraint] == 0 {
				ix.found = append(ix.found, n)
			}
			n.matching[constraint] += count
		}
	}
	return ix.found
}

// isCheap reports whether counting by the index is cheaper than looking at all pods of all nodes. Pods with labels of their own,
// such as those of a StatefulSet, are a class each.
func (ix *index) isCheap(namespace string, constraints []constraint) bool {
	classes := 0
	for i := range constraints {
		classes += len(ix.candidates(namespace, constraints[i].selector))
	}
	return classes <= max(len(ix.rows), cheapClasses)*len(constraints)
}

// cheapClasses are so few that any cluster's pods are counted by them.
const cheapClasses = 32

// countOn returns the number of pods that match the decision's constraint on the node of a row.
func (ix *index) countOn(mark, constraint, row int) int {
	if n := ix.rows[row].node; n.mark == mark {
		return n.matching[constraint]
	}
	return 0
}

// find returns the row of a node of the last list. A node of another snapshot has none.
func (ix *index) find(info fwk.NodeInfo) (int, bool) {
	own, ok := info.(*framework.NodeInfo)
	if !ok {
		return 0, false
	}
	row, ok := ix.rowOf[own]
	return row, ok
}

// topology has the values of a label on the nodes of the last list, as numbers: nodes and their labels are far apart in memory.
type topology struct {
	key string
	// domains are the numbers of the values by row. A node without the label has that of the empty value, and is not labeled.
	domains []int
	labeled []bool
	byValue map[string]int
}

// maxTopologies bounds the labels whose values are kept: a tenant's pods can name any.
const maxTopologies = 100

func (ix *index) topologyOf(key string) *topology {
	t, ok := ix.topologies[key]
	if ok {
		return t
	}
	t = &topology{key: key, domains: make([]int, len(ix.rows)), labeled: make([]bool, len(ix.rows)), byValue: map[string]int{}}
	for i := range ix.rows {
		t.domains[i], t.labeled[i] = t.of(ix.rows[i].node.object)
	}
	if ix.topologies == nil || len(ix.topologies) >= maxTopologies {
		ix.topologies = map[string]*topology{}
	}
	ix.topologies[key] = t
	return t
}

// of returns the number of the node's value, and whether the node has the label.
func (t *topology) of(object *corev1.Node) (domain int, labeled bool) {
	value, labeled := object.Labels[t.key]
	domain, ok := t.byValue[value]
	if !ok {
		domain = len(t.byValue)
		t.byValue[value] = domain
	}
	return domain, labeled
}

// find is of, and safe for concurrent use. No node with a row has a value that it does not find.
func (t *topology) find(object *corev1.Node) (domain int, labeled bool) {
	value, labeled := object.Labels[t.key]
	domain, ok := t.byValue[value]
	if !ok {
		return unknown, labeled
	}
	return domain, labeled
}

// unknown is the domain of a node with a value that no known node has.
const unknown = -1

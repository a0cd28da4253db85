package podindex

import corev1 "k8s.io/api/core/v1"

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
	value, labeled := object.Labels[t.Key]
	domain, ok := t.ByValue[value]
	if !ok {
		domain = len(t.ByValue)
		t.ByValue[value] = domain
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

package podindex

import (
	"iter"
	"maps"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// Terms are a pod's terms of affinity and anti-affinity to pods.
type Terms struct {
	RequiredAffinity, RequiredAntiAffinity   []fwk.AffinityTerm
	PreferredAffinity, PreferredAntiAffinity []fwk.WeightedAffinityTerm

	// listed are the labels under which the index lists the class.
	listed []label
}

// HasTerms reports whether the pod can have terms of affinity or anti-affinity to pods.
func HasTerms(pod *corev1.Pod) bool {
	a := pod.Spec.Affinity
	return a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil)
}

func termsOf(info fwk.PodInfo) *Terms {
	if !HasTerms(info.GetPod()) {
		return nil
	}
	return &Terms{
		RequiredAffinity: info.GetRequiredAffinityTerms(), RequiredAntiAffinity: info.GetRequiredAntiAffinityTerms(),
		PreferredAffinity: info.GetPreferredAffinityTerms(), PreferredAntiAffinity: info.GetPreferredAntiAffinityTerms(),
	}
}

func (t *Terms) each(yield func(*fwk.AffinityTerm) bool) {
	for _, required := range [][]fwk.AffinityTerm{t.RequiredAffinity, t.RequiredAntiAffinity} {
		for i := range required {
			if !yield(&required[i]) {
				return
			}
		}
	}
	for _, preferred := range [][]fwk.WeightedAffinityTerm{t.PreferredAffinity, t.PreferredAntiAffinity} {
		for i := range preferred {
			if !yield(&preferred[i].AffinityTerm) {
				return
			}
		}
	}
}

// anyNamespace is the namespace of labels that pods of any namespace may have. No namespace has this name.
const anyNamespace = "*"

// maxLists bounds the lists of a class, whose terms and namespaces any tenant's pods decide.
const maxLists = 64

// listTerms lists the class once for each of its terms and namespaces. Of the labels that a term requires, the one with the fewest
// classes is taken. A term that requires none is listed under the label without name.
func (ix *Index) listTerms(c *Class) {
	if c.Terms == nil {
		return
	}
	c.Terms.listed = ix.listsOf(c.Terms)
	for _, l := range c.Terms.listed {
		list(ix.termed, l, c)
	}
}

// listsOf returns the labels to list the terms under. Terms with too many are looked at for each pod.
func (ix *Index) listsOf(terms *Terms) (lists []label) {
	for t := range terms.each {
		requirements, selectable := t.Selector.Requirements()
		if !selectable {
			continue
		}
		namespaces := t.Namespaces
		if _, selects := t.NamespaceSelector.Requirements(); selects {
			namespaces = sets.New(anyNamespace)
		}
		if len(lists)+len(namespaces) > maxLists {
			return []label{{namespace: anyNamespace}}
		}
		for namespace := range namespaces {
			lists = append(lists, ix.rarest(namespace, t.Selector, requirements))
		}
	}
	return lists
}

// rarest returns the label to list a selector under.
func (ix *Index) rarest(namespace string, selector labels.Selector, requirements labels.Requirements) label {
	best, listed := label{namespace: namespace}, math.MaxInt
	for i := range requirements {
		name := requirements[i].Key()
		if value, ok := selector.RequiresExactMatch(name); ok {
			if l := (label{namespace, name, value}); len(ix.termed[l]) < listed {
				best, listed = l, len(ix.termed[l])
			}
		}
	}
	return best
}

func (ix *Index) unlistTerms(c *Class) {
	if c.Terms == nil {
		return
	}
	for _, l := range c.Terms.listed {
		unlist(ix.termed, l, c)
	}
}

// WithTerms yields each class with a term that can match the pod.
func (ix *Index) WithTerms(pod *corev1.Pod) iter.Seq[*Class] {
	return func(yield func(*Class) bool) {
		ix.visits++
		for l := range podLabels(pod) {
			for c := range ix.termed[l] {
				if c.visit == ix.visits {
					continue
				}
				if c.visit = ix.visits; !yield(c) {
					return
				}
			}
		}
	}
}

// CountWithTerms returns at least the number of classes that WithTerms yields.
func (ix *Index) CountWithTerms(pod *corev1.Pod) (classes int) {
	for l := range podLabels(pod) {
		classes += len(ix.termed[l])
	}
	return classes
}

// podLabels yields the labels under which terms that match the pod are listed.
func podLabels(pod *corev1.Pod) iter.Seq[label] {
	return func(yield func(label) bool) {
		for _, namespace := range []string{pod.Namespace, anyNamespace} {
			if !yield(label{namespace: namespace}) {
				return
			}
			for name, value := range pod.Labels {
				if !yield(label{namespace, name, value}) {
					return
				}
			}
		}
	}
}

// MatchesAll reports whether the pods of the class match all terms of an incoming pod.
func (c *Class) MatchesAll(terms []fwk.AffinityTerm) bool {
	for i := range terms {
		t := &terms[i]
		if !t.Namespaces.Has(c.Namespace) && !inAnyNamespace(t) || !t.Selector.Matches(c.Labels) {
			return false
		}
	}
	return true
}

// inAnyNamespace reports whether the term of an incoming pod matches pods of all namespaces. Their labels are not looked up.
func inAnyNamespace(term *fwk.AffinityTerm) bool {
	return term.NamespaceSelector.Matches(labels.Set(nil))
}

// MatchedBy yields the classes that the term of an incoming pod matches, in its namespaces or in all. Namespace selectors have to
// be resolved before.
func (ix *Index) MatchedBy(term *fwk.AffinityTerm) iter.Seq[*Class] {
	return func(yield func(*Class) bool) {
		for c := range ix.namedBy(term) {
			if term.Selector.Matches(c.Labels) && !yield(c) {
				return
			}
		}
	}
}

// namedBy yields the classes of the term's namespaces that its selector can match.
func (ix *Index) namedBy(term *fwk.AffinityTerm) iter.Seq[*Class] {
	if inAnyNamespace(term) {
		return maps.Values(ix.classes)
	}
	return func(yield func(*Class) bool) {
		for namespace := range term.Namespaces {
			for c := range ix.Candidates(namespace, term.Selector) {
				if !yield(c) {
					return
				}
			}
		}
	}
}

// CountMatchedBy returns at least the number of classes that MatchedBy looks at.
func (ix *Index) CountMatchedBy(term *fwk.AffinityTerm) (classes int) {
	if inAnyNamespace(term) {
		return len(ix.classes)
	}
	for namespace := range term.Namespaces {
		classes += len(ix.Candidates(namespace, term.Selector))
	}
	return classes
}

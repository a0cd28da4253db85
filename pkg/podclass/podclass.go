// Package podclass sorts pods into classes, by their priority class or their labels.
package podclass

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
)

// Selector selects the pods of one config.PodClass.
type Selector struct {
	priorityClasses []string
	pods            labels.Selector
}

// NewSelector returns the selector of a class. Validation refuses an invalid PodSelector, so here it selects nothing.
func NewSelector(class config.PodClass) Selector {
	pods, err := metav1.LabelSelectorAsSelector(class.PodSelector) // a nil selector matches nothing
	if err != nil {
		pods = labels.Nothing()
	}
	return Selector{class.PriorityClassNames, pods}
}

// Selects reports whether the pod is of the class.
func (s *Selector) Selects(pod *corev1.Pod) bool {
	return slices.Contains(s.priorityClasses, pod.Spec.PriorityClassName) || s.pods.Matches(labels.Set(pod.Labels))
}

// None is the class of pods that no class selects.
const None = -1

// Classes are classes of pods; the first that selects a pod wins. It is safe for concurrent use. A nil Classes has none.
type Classes struct {
	configured []config.PodClass
	selectors  []Selector
}

// New returns the classes; nil if there are none.
func New(configured []config.PodClass) *Classes {
	if len(configured) == 0 {
		return nil
	}
	c := &Classes{configured: configured}
	for _, class := range configured {
		c.selectors = append(c.selectors, NewSelector(class))
	}
	return c
}

// Equal reports whether both have equal configurations.
func (c *Classes) Equal(other *Classes) bool {
	return c == other || c != nil && other != nil && equality.Semantic.DeepEqual(c.configured, other.configured)
}

// Len is the number of classes.
func (c *Classes) Len() int {
	if c == nil {
		return 0
	}
	return len(c.selectors)
}

// Of returns the first class that selects the pod, or None.
func (c *Classes) Of(pod *corev1.Pod) int {
	if c == nil {
		return None
	}
	return slices.IndexFunc(c.selectors, func(s Selector) bool { return s.Selects(pod) })
}

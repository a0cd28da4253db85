package loadthreshold

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
)

// exemptions select the pods that are exempt from thresholds.
type exemptions struct {
	daemonSets      bool
	priorityClasses []string
	pods            labels.Selector
	// namespaces is nil where none is exempt.
	namespaces      labels.Selector
	namespaceLister corelisters.NamespaceLister
}

func newExemptions(args *config.LoadThresholdArgs, handle minor.Handle) (exemptions, error) {
	e := exemptions{daemonSets: args.IgnoreDaemonSets, priorityClasses: args.Exempt.PriorityClassNames}
	var err error
	if e.pods, err = metav1.LabelSelectorAsSelector(args.Exempt.PodSelector); err != nil { // a nil selector matches nothing
		return exemptions{}, fmt.Errorf("exempt.podSelector: %w", err)
	}
	if args.Exempt.NamespaceSelector == nil {
		return e, nil
	}
	if e.namespaces, err = metav1.LabelSelectorAsSelector(args.Exempt.NamespaceSelector); err != nil {
		return exemptions{}, fmt.Errorf("exempt.namespaceSelector: %w", err)
	}
	e.namespaceLister = handle.SharedInformerFactory().Core().V1().Namespaces().Lister()
	return e, nil
}

// cover reports whether the pod is exempt.
func (e *exemptions) cover(pod *corev1.Pod) bool {
	return e.daemonSets && isDaemonSetPod(pod) || slices.Contains(e.priorityClasses, pod.Spec.PriorityClassName) ||
		e.pods.Matches(labels.Set(pod.Labels)) || e.coverNamespace(pod.Namespace)
}

func (e *exemptions) coverNamespace(name string) bool {
	if e.namespaces == nil {
		return false
	}
	namespace, err := e.namespaceLister.Get(name)
	return err == nil && e.namespaces.Matches(labels.Set(namespace.Labels))
}

// isDaemonSetPod reports whether the pod is a DaemonSet's and can run on one node only. Everybody can write an ownerReference:
// what counts is that the pod cannot go elsewhere.
func isDaemonSetPod(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == "DaemonSet" && owner.APIVersion == appsv1.SchemeGroupVersion.String() && isBoundToOneNode(pod)
}

// isBoundToOneNode reports whether the pod's required node affinity names one node by metadata.name, as the DaemonSet
// controller writes it.
func isBoundToOneNode(pod *corev1.Pod) bool {
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	terms := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	node := ""
	for i := range terms {
		named := ""
		for _, field := range terms[i].MatchFields {
			if field.Key == metav1.ObjectNameField && field.Operator == corev1.NodeSelectorOpIn && len(field.Values) == 1 {
				named = field.Values[0]
			}
		}
		if named == "" || node != "" && named != node {
			return false // this term lets the pod go to other nodes
		}
		node = named
	}
	return node != ""
}

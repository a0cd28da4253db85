package manifest

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
)

// Admission adds priorities, LimitRange defaults and the fields of RuntimeClasses to pods, as the API server does. It
// calls no webhooks and checks no quotas. The zero value is a cluster without these objects.
type Admission struct {
	PriorityClasses []schedulingv1.PriorityClass
	RuntimeClasses  []nodev1.RuntimeClass
	LimitRanges     []corev1.LimitRange
	// Missing are the kinds that could not be read.
	Missing []cluster.MissingKind
}

// ReadAdmission reads the objects that admission of the manifest's pods needs.
func ReadAdmission(ctx context.Context, conn *cluster.Connection, m *Manifest) *Admission {
	client := conn.Client
	a := &Admission{}
	listed := func(group, resource string, err error) bool {
		if err != nil {
			a.Missing = append(a.Missing, conn.Missing(ctx, group, resource, err))
		}
		return err == nil
	}
	priorities, err := client.SchedulingV1().PriorityClasses().List(ctx, metav1.ListOptions{})
	if listed("scheduling.k8s.io", "priorityclasses", err) {
		a.PriorityClasses = priorities.Items
	}
	if slices.ContainsFunc(m.Workloads, func(w *Workload) bool { return w.spec.RuntimeClassName != nil }) {
		classes, err := client.NodeV1().RuntimeClasses().List(ctx, metav1.ListOptions{})
		if listed("node.k8s.io", "runtimeclasses", err) {
			a.RuntimeClasses = classes.Items
		}
	}
	namespaces := sets.New[string]()
	for _, w := range m.Workloads {
		namespaces.Insert(w.Namespace)
	}
	for _, namespace := range sets.List(namespaces) {
		ranges, err := client.CoreV1().LimitRanges(namespace).List(ctx, metav1.ListOptions{})
		if !listed("", "limitranges", err) {
			break
		}
		a.LimitRanges = append(a.LimitRanges, ranges.Items...)
	}
	return a
}

// Admit changes the pod as the API server would. It fails if the pod names a class that does not exist.
func (a *Admission) Admit(pod *corev1.Pod) error {
	a.applyLimitRanges(pod)
	if err := a.setPriority(pod); err != nil {
		return err
	}
	addDefaultTolerations(pod)
	return a.applyRuntimeClass(pod)
}

// applyLimitRanges sets the requests and limits that the namespace's LimitRanges default for containers.
func (a *Admission) applyLimitRanges(pod *corev1.Pod) {
	for i := range a.LimitRanges {
		for _, item := range a.LimitRanges[i].Spec.Limits {
			if a.LimitRanges[i].Namespace != pod.Namespace || item.Type != corev1.LimitTypeContainer {
				continue
			}
			for c := range podutil.ContainerIter(&pod.Spec, podutil.InitContainers|podutil.Containers) {
				r := &c.Resources
				r.Limits, r.Requests = withDefaults(r.Limits, item.Default), withDefaults(r.Requests, item.DefaultRequest)
			}
		}
	}
}

func withDefaults(list, defaults corev1.ResourceList) corev1.ResourceList {
	all := corev1.ResourceList{}
	maps.Copy(all, defaults)
	maps.Copy(all, list)
	return all
}

// setPriority sets the priority of the pod's PriorityClass, or of the cluster's default class.
func (a *Admission) setPriority(pod *corev1.Pod) error {
	priority, policy, name := int32(0), corev1.PreemptLowerPriority, pod.Spec.PriorityClassName
	i := slices.IndexFunc(a.PriorityClasses, func(c schedulingv1.PriorityClass) bool {
		return c.Name == name || name == "" && c.GlobalDefault
	})
	switch {
	case i >= 0:
		class := &a.PriorityClasses[i]
		pod.Spec.PriorityClassName, priority, policy = class.Name, class.Value, ptr.Deref(class.PreemptionPolicy, policy)
	case name != "" && a.unread("priorityclasses"):
		priority = ptr.Deref(pod.Spec.Priority, 0)
	case name != "":
		return fmt.Errorf("spec.priorityClassName: there is no PriorityClass %q", name)
	}
	pod.Spec.Priority, pod.Spec.PreemptionPolicy = &priority, &policy
	return nil
}

func (a *Admission) unread(resource string) bool {
	return slices.ContainsFunc(a.Missing, func(m cluster.MissingKind) bool { return m.Resource == resource })
}

func addDefaultTolerations(pod *corev1.Pod) {
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		toleration := corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](300),
		}
		if !slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
			return (t.Key == key || t.Key == "") && (t.Effect == toleration.Effect || t.Effect == "")
		}) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, toleration)
		}
	}
}

// applyRuntimeClass adds the overhead, node selector and tolerations of the pod's RuntimeClass.
func (a *Admission) applyRuntimeClass(pod *corev1.Pod) error {
	if pod.Spec.RuntimeClassName == nil {
		return nil
	}
	i := slices.IndexFunc(a.RuntimeClasses, func(c nodev1.RuntimeClass) bool { return c.Name == *pod.Spec.RuntimeClassName })
	switch {
	case i < 0 && a.unread("runtimeclasses"):
		return nil
	case i < 0:
		return fmt.Errorf("spec.runtimeClassName: there is no RuntimeClass %q", *pod.Spec.RuntimeClassName)
	}
	class := &a.RuntimeClasses[i]
	if class.Overhead != nil {
		pod.Spec.Overhead = class.Overhead.PodFixed
	}
	if class.Scheduling != nil {
		for key, value := range class.Scheduling.NodeSelector {
			pod.Spec.NodeSelector = with(pod.Spec.NodeSelector, key, value)
		}
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, class.Scheduling.Tolerations...)
	}
	return nil
}

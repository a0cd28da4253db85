package manifest

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
)

// Admission adds priorities and LimitRange defaults to pods, as the API server does. It calls no webhooks, checks no
// quotas, and knows no RuntimeClasses. The zero value is a cluster without these objects.
type Admission struct {
	PriorityClasses []schedulingv1.PriorityClass
	// LimitRanges are those of the manifest's namespaces, by namespace.
	LimitRanges map[string][]corev1.LimitRange
	// Missing are the kinds that could not be read.
	Missing []cluster.MissingKind
}

// ReadAdmission reads the objects that admission of the manifest's pods needs.
func ReadAdmission(ctx context.Context, conn *cluster.Connection, m *Manifest) *Admission {
	a := &Admission{LimitRanges: map[string][]corev1.LimitRange{}}
	priorities, err := conn.Client.SchedulingV1().PriorityClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		a.Missing = append(a.Missing, conn.Missing(ctx, "scheduling.k8s.io", "priorityclasses", err))
	} else {
		a.PriorityClasses = priorities.Items
	}
	for _, w := range m.Workloads {
		if a.LimitRanges[w.Namespace] != nil {
			continue
		}
		ranges, err := conn.Client.CoreV1().LimitRanges(w.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			a.Missing = append(a.Missing, conn.Missing(ctx, "", "limitranges", err))
			break
		}
		a.LimitRanges[w.Namespace] = append([]corev1.LimitRange{}, ranges.Items...)
	}
	return a
}

// Admit changes the pod as the API server would. It fails if the pod names a PriorityClass that does not exist.
func (a *Admission) Admit(pod *corev1.Pod) error {
	for i := range a.LimitRanges[pod.Namespace] {
		for _, item := range a.LimitRanges[pod.Namespace][i].Spec.Limits {
			if item.Type != corev1.LimitTypeContainer {
				continue
			}
			for c := range podutil.ContainerIter(&pod.Spec, podutil.InitContainers|podutil.Containers) {
				r := &c.Resources
				r.Limits, r.Requests = withDefaults(r.Limits, item.Default), withDefaults(r.Requests, item.DefaultRequest)
			}
		}
	}
	return a.setPriority(pod)
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
	case name != "" && len(a.Missing) > 0:
		priority = ptr.Deref(pod.Spec.Priority, 0)
	case name != "":
		return fmt.Errorf("spec.priorityClassName: there is no PriorityClass %q", name)
	}
	pod.Spec.Priority, pod.Spec.PreemptionPolicy = &priority, &policy
	return nil
}

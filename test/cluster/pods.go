package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Pod is a pod to be scheduled, in the default namespace.
type Pod struct {
	Name string
	// Scheduler is the name of the profile that places the pod.
	Scheduler string
	Labels    map[string]string
	Resources corev1.ResourceRequirements
	// Usage is what it uses wherever it runs.
	Usage Usage
	// NodeSelector keeps it to nodes with these labels.
	NodeSelector map[string]string
}

// CreatePods creates pods.
func (c *Cluster) CreatePods(ctx context.Context, pods ...Pod) error {
	for _, p := range pods {
		_, err := c.Client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: p.Name, Labels: p.Labels, Annotations: p.Usage.Annotations()},
			Spec: corev1.PodSpec{
				SchedulerName:                 p.Scheduler,
				NodeSelector:                  p.NodeSelector,
				TerminationGracePeriodSeconds: new(int64),
				Containers:                    []corev1.Container{{Name: "app", Image: podImage, Resources: p.Resources}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("creating pod %s: %w", p.Name, err)
		}
	}
	return nil
}

// WaitBound waits until n pods with the labels are bound to nodes, and returns the node of each.
func (c *Cluster) WaitBound(ctx context.Context, with map[string]string, n int) (map[string]string, error) {
	var nodes map[string]string
	selector := labels.SelectorFromSet(with).String()
	err := c.poll(ctx, fmt.Sprintf("%d pods with %s to be bound", n, selector), func(ctx context.Context) (string, error) {
		list, err := c.Client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return "", err
		}
		nodes = map[string]string{}
		waiting := ""
		for _, p := range list.Items {
			if p.Spec.NodeName != "" {
				nodes[p.Name] = p.Spec.NodeName
			} else {
				waiting = ", not bound is " + p.Name + unschedulable(p)
			}
		}
		if len(nodes) < n {
			return fmt.Sprintf("%d of %d%s", len(nodes), n, waiting), nil
		}
		return "", nil
	})
	return nodes, err
}

// unschedulable returns what the scheduler says of a pod that it could not place.
func unschedulable(p corev1.Pod) string {
	for _, condition := range p.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return " (" + condition.Message + ")"
		}
	}
	return ""
}

// DeletePods deletes pods of a namespace and waits until they are gone.
func (c *Cluster) DeletePods(ctx context.Context, namespace string, which metav1.ListOptions) error {
	pods := c.Client.CoreV1().Pods(namespace)
	if err := pods.DeleteCollection(ctx, metav1.DeleteOptions{}, which); err != nil {
		return fmt.Errorf("deleting pods: %w", err)
	}
	return c.poll(ctx, "deleted pods to be gone", func(ctx context.Context) (string, error) {
		list, err := pods.List(ctx, which)
		if err != nil || len(list.Items) == 0 {
			return "", err
		}
		return list.Items[0].Name + " is there", nil
	})
}

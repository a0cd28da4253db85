package cluster

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	daemonutil "k8s.io/kubernetes/pkg/controller/daemon/util"
	"k8s.io/utils/ptr"
)

// Pod is a pod to be scheduled, in the default namespace.
type Pod struct {
	// Name may be empty for a pod with a ReplicaSet: its name is then made as a ReplicaSet's controller does.
	Name string
	// Scheduler is the name of the profile that places the pod.
	Scheduler string
	Labels    map[string]string
	Resources corev1.ResourceRequirements
	// Usage is what the pod really uses, on every node.
	Usage Usage
	// NodeSelector restricts the pod to nodes with these labels.
	NodeSelector map[string]string
	// PriorityClass is the name of the pod's priority class; empty means none.
	PriorityClass string
	// Node is the node that the pod is bound to from the start; empty means that a scheduler binds it.
	Node string
	// Gate is a scheduling gate; empty means none.
	Gate string
	// ReplicaSet is the name of the ReplicaSet that owns the pod; empty means none.
	ReplicaSet string
	// DaemonSet is the name of the DaemonSet that owns the pod, and DaemonSetNode the pod's node. Empty means none.
	DaemonSet, DaemonSetNode string
}

// CreatePods creates pods.
func (c *Cluster) CreatePods(ctx context.Context, pods ...Pod) error {
	for _, p := range pods {
		if err := c.createPod(ctx, metav1.NamespaceDefault, p); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) createPod(ctx context.Context, namespace string, p Pod) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: p.Name, GenerateName: p.generateName(), Labels: p.Labels, Annotations: p.Usage.Annotations(), OwnerReferences: p.owners(),
		},
		Spec: corev1.PodSpec{
			NodeName: p.Node, SchedulerName: p.Scheduler, PriorityClassName: p.PriorityClass, NodeSelector: p.NodeSelector,
			TerminationGracePeriodSeconds: new(int64),
			Containers:                    []corev1.Container{{Name: "app", Image: podImage, Resources: p.Resources}},
		},
	}
	if p.Gate != "" {
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: p.Gate}}
	}
	if p.DaemonSetNode != "" {
		pod.Spec.Affinity = daemonutil.ReplaceDaemonSetPodNodeNameNodeAffinity(nil, p.DaemonSetNode)
	}
	if _, err := c.Client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating pod %s: %w", p.Name+p.generateName(), err)
	}
	return nil
}

// generateName returns what the API server makes the name of, if the pod has none.
func (p Pod) generateName() string {
	if p.Name != "" || p.ReplicaSet == "" {
		return ""
	}
	return p.ReplicaSet + "-"
}

// owners returns the owner references. The owners need not exist: no controller collects garbage.
func (p Pod) owners() []metav1.OwnerReference {
	owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: p.ReplicaSet, Controller: ptr.To(true)}
	if p.DaemonSet != "" {
		owner.Kind, owner.Name = "DaemonSet", p.DaemonSet
	}
	if owner.Name == "" {
		return nil
	}
	owner.UID = types.UID("of-" + owner.Name)
	return []metav1.OwnerReference{owner}
}

// Replicate keeps so many pods with the replacement's labels alive until ctx ends, as a ReplicaSet's controller does.
func (c *Cluster) Replicate(ctx context.Context, replicas int, replacement Pod) {
	selector := metav1.ListOptions{LabelSelector: labels.SelectorFromSet(replacement.Labels).String()}
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		pods, err := c.Client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, selector)
		if err != nil {
			return
		}
		alive := slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
		if len(alive) < replicas {
			_ = c.CreatePods(ctx, replacement) // or else with the next look
		}
	}, 2*pollInterval)
}

// CreatePriorityClass creates a priority class.
func (c *Cluster) CreatePriorityClass(ctx context.Context, name string, priority int32) error {
	_, err := c.Client.SchedulingV1().PriorityClasses().Create(ctx, &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Value: priority,
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating priority class %s: %w", name, err)
	}
	return nil
}

// WaitBound waits until n pods with the labels are bound. It returns the node of each pod by the pod's name.
func (c *Cluster) WaitBound(ctx context.Context, podLabels map[string]string, n int) (map[string]string, error) {
	var nodes map[string]string
	selector := labels.SelectorFromSet(podLabels).String()
	err := c.poll(ctx, fmt.Sprintf("%d pods with %s to be bound", n, selector), func(ctx context.Context) (string, error) {
		list, err := c.Client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return "", err
		}
		nodes = map[string]string{}
		waiting := ""
		for i := range list.Items {
			if p := &list.Items[i]; p.Spec.NodeName != "" {
				nodes[p.Name] = p.Spec.NodeName
			} else {
				waiting = fmt.Sprintf(", not %s (%s)", p.Name, unschedulable(p))
			}
		}
		if len(nodes) < n {
			return fmt.Sprintf("%d of %d are bound%s", len(nodes), n, waiting), nil
		}
		return "", nil
	})
	return nodes, err
}

// WaitRefused waits until the scheduler has refused a pod, and returns the message of its PodScheduled condition.
func (c *Cluster) WaitRefused(ctx context.Context, pod string) (message string, err error) {
	if message, err = c.WaitDecided(ctx, pod); err == nil && message == "" {
		err = fmt.Errorf("pod %s is bound, must be refused", pod)
	}
	return message, err
}

// WaitDecided waits until the scheduler has bound or refused a pod. It returns why the scheduler refused it; empty if it is bound.
func (c *Cluster) WaitDecided(ctx context.Context, pod string) (refusal string, err error) {
	err = c.poll(ctx, pod+" to be bound or refused", func(ctx context.Context) (string, error) {
		p, err := c.Client.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, pod, metav1.GetOptions{})
		if refusal = unschedulable(p); err == nil && p.Spec.NodeName == "" && refusal == "" {
			return "it has no PodScheduled condition", nil
		}
		return "", err
	})
	return refusal, err
}

// unschedulable returns the scheduler's message about a pod that it refused; empty if it did not refuse the pod.
func unschedulable(p *corev1.Pod) string {
	_, scheduled := podutil.GetPodCondition(&p.Status, corev1.PodScheduled)
	if scheduled != nil && scheduled.Status == corev1.ConditionFalse {
		return scheduled.Message
	}
	return ""
}

// DeletePods deletes the pods of a namespace that a selector matches, and waits until they are gone.
func (c *Cluster) DeletePods(ctx context.Context, namespace string, selector metav1.ListOptions) error {
	pods := c.Client.CoreV1().Pods(namespace)
	// The API server may not delete thousands within its time limit. Then it answers so, or breaks off without a status.
	late := func(err error) bool {
		return apierrors.IsTimeout(err) || apierrors.ReasonForError(err) == metav1.StatusReasonUnknown
	}
	err := retry.OnError(retry.DefaultBackoff, late, func() error {
		return pods.DeleteCollection(ctx, metav1.DeleteOptions{}, selector)
	})
	if err != nil {
		return fmt.Errorf("deleting pods: %w", err)
	}
	return c.poll(ctx, "deleted pods to be gone", func(ctx context.Context) (string, error) {
		list, err := pods.List(ctx, selector)
		if err != nil || len(list.Items) == 0 {
			return "", err
		}
		return list.Items[0].Name + " still exists", nil
	})
}

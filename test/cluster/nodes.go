package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	nodeutil "k8s.io/kubernetes/pkg/util/node"
)

const (
	// usageCPUAnnotation and usageMemoryAnnotation hold a pod's usage; config/kwok.yaml reads them.
	usageCPUAnnotation    = "kwok.x-k8s.io/usage-cpu"
	usageMemoryAnnotation = "kwok.x-k8s.io/usage-memory"
	cpuSwingAnnotation    = "plimsoll.test/cpu-swing"
	swingPeriodAnnotation = "plimsoll.test/swing-period-seconds"
	// latencyAnnotation holds the latency of a node's HTTP servers, in seconds.
	latencyAnnotation = "plimsoll.io/latency"
	// loadNamespace is the namespace of the pods that give nodes their load.
	loadNamespace = metav1.NamespaceSystem
	loadPodPrefix = "load-of-"
	// podImage is never pulled.
	podImage = "registry.k8s.io/pause:3.10"
)

// Unmeasured is a prefix of names of nodes without load: config/prometheus.yaml drops their series. Their pods are measured.
const Unmeasured = "unmeasured-"

// Node is a node to create.
type Node struct {
	Name string
	// CPU and Memory are the capacity, as quantities. All of it is allocatable.
	CPU, Memory string
	Labels      map[string]string
}

// Usage is what a pod really uses.
type Usage struct {
	// CPU and Memory are quantities. Empty means 1m of CPU and 1Mi of memory.
	CPU, Memory string
	// CPUSwing is added to CPU in the first half of each SwingPeriod and subtracted in the second half. CPU stays the mean and
	// CPUSwing is the standard deviation. A window of n seconds, scraped every second, may have one sample more of one half. That
	// moves its mean by up to CPUSwing/n.
	CPUSwing    string
	SwingPeriod time.Duration
}

// Annotations returns the annotations that make KWOK play the usage.
func (u Usage) Annotations() map[string]string {
	annotations := map[string]string{}
	set := func(name, value string) {
		if value != "" {
			annotations[name] = value
		}
	}
	set(usageCPUAnnotation, u.CPU)
	set(usageMemoryAnnotation, u.Memory)
	set(cpuSwingAnnotation, u.CPUSwing)
	if u.CPUSwing != "" {
		set(swingPeriodAnnotation, strconv.FormatFloat(u.SwingPeriod.Seconds(), 'f', -1, 64))
	}
	return annotations
}

// Load is the load of a node before any pod is scheduled to it.
type Load struct {
	Usage Usage
	// Requests are the requests of the pod that causes the load.
	Requests corev1.ResourceList
}

// CreateNodes creates nodes and waits until all of them are ready.
func (c *Cluster) CreateNodes(ctx context.Context, nodes ...Node) error {
	for _, n := range nodes {
		size := corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(n.CPU), corev1.ResourceMemory: resource.MustParse(n.Memory),
			corev1.ResourcePods: resource.MustParse("250"),
		}
		labels := map[string]string{corev1.LabelHostname: n.Name, corev1.LabelOSStable: "linux"}
		maps.Copy(labels, n.Labels)
		_, err := c.Client.CoreV1().Nodes().Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: labels, Annotations: map[string]string{
				// KWOK serves all nodes at one address; this is the node's path for metrics-server.
				"metrics.k8s.io/resource-metrics-path": "/metrics/nodes/" + n.Name + "/metrics/resource",
			}},
			Status: corev1.NodeStatus{Capacity: size, Allocatable: size},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("creating node %s: %w", n.Name, err)
		}
	}
	return c.poll(ctx, "nodes to become ready", func(ctx context.Context) (string, error) {
		list, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		ready := map[string]bool{}
		for i := range list.Items {
			ready[list.Items[i].Name] = nodeutil.IsNodeReady(&list.Items[i])
		}
		for _, n := range nodes {
			if !ready[n.Name] {
				return n.Name + " is not ready", nil
			}
		}
		return "", nil
	})
}

// SetLoad gives a node a load, and replaces the one that it has. A later call cannot change Requests.
func (c *Cluster) SetLoad(ctx context.Context, node string, load Load) error {
	pod := Pod{
		Name: loadPodPrefix + node, Node: node, Usage: load.Usage, Resources: corev1.ResourceRequirements{Requests: load.Requests},
	}
	err := c.createPod(ctx, loadNamespace, pod)
	if apierrors.IsAlreadyExists(err) {
		err = c.SetUsage(ctx, loadNamespace, pod.Name, load.Usage)
	}
	if err != nil {
		return fmt.Errorf("giving node %s a load: %w", node, err)
	}
	return nil
}

// SetUsage replaces what a pod uses.
func (c *Cluster) SetUsage(ctx context.Context, namespace, pod string, usage Usage) error {
	// A merge patch removes what is null.
	annotations := map[string]any{
		usageCPUAnnotation: nil, usageMemoryAnnotation: nil, cpuSwingAnnotation: nil, swingPeriodAnnotation: nil,
	}
	for name, value := range usage.Annotations() {
		annotations[name] = value
	}
	patch, _ := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}}) // the values are strings
	if _, err := c.Client.CoreV1().Pods(namespace).Patch(ctx, pod, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("setting the usage of pod %s: %w", pod, err)
	}
	return nil
}

// SetLatency sets the HTTP latency of a node.
func (c *Cluster) SetLatency(ctx context.Context, node string, latency time.Duration) error {
	return c.AnnotateNode(ctx, node, latencyAnnotation, strconv.FormatFloat(latency.Seconds(), 'f', -1, 64))
}

// AnnotateNode sets an annotation of a node.
func (c *Cluster) AnnotateNode(ctx context.Context, node, name, value string) error {
	patch := fmt.Appendf(nil, `{"metadata": {"annotations": {%q: %q}}}`, name, value)
	if _, err := c.Client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("annotating node %s: %w", node, err)
	}
	return nil
}

// Clear removes all pods and nodes, and waits until the pods are gone.
func (c *Cluster) Clear(ctx context.Context) error {
	for _, namespace := range []string{metav1.NamespaceDefault, loadNamespace} {
		if err := c.DeletePods(ctx, namespace, metav1.ListOptions{}); err != nil {
			return err
		}
	}
	if err := c.Client.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("deleting nodes: %w", err)
	}
	return nil
}

// poll calls look until nothing is missing, a part of the cluster has failed, or waitTimeout has passed. The error then says what
// was missing last. An error from look counts as something missing: a part may be down for a while.
func (c *Cluster) poll(ctx context.Context, what string, look func(ctx context.Context) (missing string, err error)) error {
	var missing string
	err := wait.PollUntilContextTimeout(ctx, pollInterval, waitTimeout, true, func(ctx context.Context) (bool, error) {
		if err := c.Failed(); err != nil {
			return false, err
		}
		m, err := look(ctx)
		switch {
		case err == nil:
			missing = m
		case ctx.Err() == nil:
			missing = err.Error()
		}
		return err == nil && m == "", nil
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
	case wait.Interrupted(err):
		return fmt.Errorf("waiting for %s: %s after %s", what, missing, waitTimeout)
	}
	return fmt.Errorf("waiting for %s: %w", what, err)
}

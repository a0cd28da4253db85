package requests

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
)

// found is the workloads of a cluster, with what their containers used.
type found struct {
	workloads []*Workload
	byName    map[learned.Workload]*Workload
	// ofPod are the workloads of the pods that exist, by namespace and name. nil stands for a workload that is not reported.
	ofPod map[[2]string]*Workload
	// allocatable is the sum over all nodes.
	allocatable [load.ResourceCount]float64
	// skipped are Report.Skipped.
	skipped []string
	// start is the start of the history.
	start time.Time
}

// find lists the workloads and the running pods of a namespace; an empty one is all.
func find(ctx context.Context, c *cluster.Connection, namespace, selector string) (*found, error) {
	f := &found{byName: map[learned.Workload]*Workload{}, ofPod: map[[2]string]*Workload{}}
	if err := f.listWorkloads(ctx, c, namespace, metav1.ListOptions{LabelSelector: selector}); err != nil {
		return nil, err
	}
	slices.SortFunc(f.workloads, func(a, b *Workload) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	unfinished := metav1.ListOptions{ResourceVersion: "0", FieldSelector: cluster.UnfinishedPods}
	pods, err := c.Client.CoreV1().Pods(namespace).List(ctx, unfinished)
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		owner, _ := learned.OwnerOf(pod)
		w := f.byName[owner]
		if w != nil && w.Kind != kindOfOwner(pod) {
			w = nil
		}
		f.ofPod[[2]string{pod.Namespace, pod.Name}] = w
		if w != nil && pod.Spec.NodeName != "" {
			w.Pods++
		}
	}
	nodes, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	for i := range nodes.Items {
		allocatable := nodes.Items[i].Status.Allocatable
		f.allocatable[load.CPU] += float64(allocatable.Cpu().MilliValue())
		f.allocatable[load.Memory] += allocatable.Memory().AsApproximateFloat64()
	}
	return f, nil
}

// kindOfOwner returns the kind of the workload that learned.OwnerOf names.
func kindOfOwner(pod *corev1.Pod) string {
	switch owner := metav1.GetControllerOfNoCopy(pod); {
	case owner == nil:
		return ""
	case owner.Kind == "ReplicaSet":
		return "Deployment"
	case owner.Kind == "Job":
		return "CronJob"
	default:
		return owner.Kind
	}
}

func (f *found) listWorkloads(ctx context.Context, c *cluster.Connection, namespace string, o metav1.ListOptions) error {
	apps, batch := c.Client.AppsV1(), c.Client.BatchV1()
	deployments, err := apps.Deployments(namespace).List(ctx, o)
	if err != nil {
		return fmt.Errorf("list deployments: %w", err)
	}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		f.add(appsv1.SchemeGroupVersion.String(), "Deployment", &d.ObjectMeta, &d.Spec.Template)
	}
	statefulSets, err := apps.StatefulSets(namespace).List(ctx, o)
	if err != nil {
		return fmt.Errorf("list statefulsets: %w", err)
	}
	for i := range statefulSets.Items {
		s := &statefulSets.Items[i]
		f.add(appsv1.SchemeGroupVersion.String(), "StatefulSet", &s.ObjectMeta, &s.Spec.Template)
	}
	daemonSets, err := apps.DaemonSets(namespace).List(ctx, o)
	if err != nil {
		return fmt.Errorf("list daemonsets: %w", err)
	}
	for i := range daemonSets.Items {
		d := &daemonSets.Items[i]
		f.add(appsv1.SchemeGroupVersion.String(), "DaemonSet", &d.ObjectMeta, &d.Spec.Template)
	}
	cronJobs, err := batch.CronJobs(namespace).List(ctx, o)
	if err != nil {
		return fmt.Errorf("list cronjobs: %w", err)
	}
	for i := range cronJobs.Items {
		j := &cronJobs.Items[i]
		f.add(batchv1.SchemeGroupVersion.String(), "CronJob", &j.ObjectMeta, &j.Spec.JobTemplate.Spec.Template)
	}
	return nil
}

// add adds a workload. Of two kinds of one name the first counts, because usages tell names alone.
func (f *found) add(apiVersion, kind string, meta *metav1.ObjectMeta, template *corev1.PodTemplateSpec) {
	key := learned.Workload{Namespace: meta.Namespace, Name: meta.Name}
	if other := f.byName[key]; other != nil {
		f.skipped = append(f.skipped, fmt.Sprintf("%s %s/%s, beside the %s of its name", kind, meta.Namespace, meta.Name, other.Kind))
		return
	}
	w := &Workload{Namespace: meta.Namespace, Name: meta.Name, Kind: kind, APIVersion: apiVersion}
	for i := range template.Spec.Containers {
		container := &template.Spec.Containers[i]
		c := &Container{Name: container.Name}
		for r, of := range c.resources() {
			name := corev1.ResourceName(load.Resource(r).String())
			if q, ok := container.Resources.Requests[name]; ok {
				of.Request = new(q)
			}
			if q, ok := container.Resources.Limits[name]; ok {
				of.Limit = new(q)
			}
		}
		w.Containers = append(w.Containers, c)
	}
	f.byName[key] = w
	f.workloads = append(f.workloads, w)
}

// container returns the container of a pod, which may have ended; nil if it is of no workload.
func (f *found) container(namespace, pod, name string) *Container {
	w, lives := f.ofPod[[2]string{namespace, pod}]
	if !lives {
		w = f.byName[learned.Workload{Namespace: namespace, Name: promql.WorkloadOfPodName(pod)}]
	}
	if w == nil {
		return nil
	}
	if i := slices.IndexFunc(w.Containers, func(c *Container) bool { return c.Name == name }); i >= 0 {
		return w.Containers[i]
	}
	return nil
}

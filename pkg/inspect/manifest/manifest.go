// Package manifest turns manifests into pods, as the API server and the controllers of workloads would.
package manifest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes/scheme"
	podapi "k8s.io/kubernetes/pkg/api/pod"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	appsdefaults "k8s.io/kubernetes/pkg/apis/apps/v1"
	"k8s.io/kubernetes/pkg/apis/core"
	coredefaults "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	storageutil "k8s.io/kubernetes/pkg/apis/storage/util"
	"k8s.io/kubernetes/pkg/controller"
	daemonutil "k8s.io/kubernetes/pkg/controller/daemon/util"
	"k8s.io/kubernetes/pkg/util/labels"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
)

const maxBytes = 4 << 20

// Manifest holds the objects of a file.
type Manifest struct {
	// Workloads are the pods and the objects that create pods, in the order of the manifest.
	Workloads []*Workload
	// DaemonSets have a pod for each node, which their controller places. They are among Ignored too.
	DaemonSets []*appsv1.DaemonSet
	// Services matter because the scheduler spreads the pods of a Service by default.
	Services  []*corev1.Service
	PodGroups cluster.PodGroups
	// Ignored names the other objects, such as "ConfigMap shop/settings".
	Ignored []string
}

// ReadFile reads the named file, or stdin for "-". Objects without a namespace get namespace. A file without pods is an error.
func ReadFile(name string, stdin io.Reader, namespace string) (*Manifest, error) {
	if name != "-" {
		content, err := boundedfile.Read(name, maxBytes)
		if err != nil {
			return nil, err
		}
		stdin = bytes.NewReader(content)
	}
	infos, err := resource.NewLocalBuilder().Unstructured().Stream(boundedfile.NewReader(stdin, maxBytes), name).Flatten().Do().Infos()
	if err != nil {
		return nil, err
	}
	m := &Manifest{PodGroups: cluster.PodGroups{}}
	for _, info := range infos {
		object := info.Object.(*unstructured.Unstructured)
		if err := m.add(object, namespace); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", name, nameOf(object), err)
		}
	}
	if len(m.Workloads)+len(m.DaemonSets) > 0 {
		return m, nil
	}
	return nil, fmt.Errorf("%s: nothing in it creates pods: write a Pod, Deployment, ReplicaSet, ReplicationController, "+
		"StatefulSet, DaemonSet, Job or CronJob", name)
}

func (m *Manifest) add(object *unstructured.Unstructured, namespace string) error {
	if object.GetAPIVersion() == "" {
		return errors.New("apiVersion is missing")
	}
	if object.GroupVersionKind().GroupKind() == (schema.GroupKind{Group: schedulingv1.GroupName, Kind: "PodGroup"}) {
		content, err := object.MarshalJSON()
		if err == nil {
			m.PodGroups[cmp.Or(object.GetNamespace(), namespace)+"/"+object.GetName()], err = cluster.DecodePodGroup(content)
		}
		return err
	}
	typed, err := scheme.Scheme.New(object.GroupVersionKind())
	if runtime.IsNotRegisteredError(err) {
		m.Ignored = append(m.Ignored, nameOf(object))
		return nil
	}
	if object.GetNamespace() == "" {
		object.SetNamespace(namespace)
	}
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed, true)
	}
	if err != nil {
		return err
	}
	w := Of(typed)
	if w != nil {
		err = w.validate()
	}
	switch o := typed.(type) {
	case *corev1.Service:
		m.Services = append(m.Services, o)
	case *appsv1.DaemonSet:
		m.DaemonSets, m.Ignored = append(m.DaemonSets, o), append(m.Ignored, w.String())
	default:
		if w == nil {
			m.Ignored = append(m.Ignored, nameOf(object))
		} else {
			m.Workloads = append(m.Workloads, w)
		}
	}
	return err
}

func nameOf(object *unstructured.Unstructured) string {
	return object.GetKind() + " " + strings.Trim(object.GetNamespace()+"/"+object.GetName(), "/")
}

// Workload is a pod, or an object that creates pods.
type Workload struct {
	Kind, Namespace, Name string
	// Replicas is the number of pods: 1 for a Pod, and the parallelism of a Job.
	Replicas int
	// Owner is a ReplicaSet, StatefulSet or ReplicationController. The scheduler spreads pods by its selector, and reads no others.
	Owner runtime.Object

	meta metav1.ObjectMeta
	spec corev1.PodSpec
	// claims are a StatefulSet's claim templates. Its pods have ordinals, from firstOrdinal on.
	claims       []corev1.PersistentVolumeClaim
	ordinals     bool
	firstOrdinal int
}

func (w *Workload) String() string { return w.Kind + " " + w.Namespace + "/" + w.Name }

// Of returns the pod or workload, with the API server's defaults; nil for other kinds. It changes the object.
func Of(object runtime.Object) *Workload {
	switch o := object.(type) {
	case *corev1.Pod:
		o.Name = cmp.Or(o.Name, o.GenerateName+"0")
		return &Workload{Kind: "Pod", Namespace: o.Namespace, Name: o.Name, Replicas: 1, spec: o.Spec, meta: metav1.ObjectMeta{
			Namespace: o.Namespace, Labels: o.Labels, Annotations: o.Annotations, OwnerReferences: o.OwnerReferences,
		}}
	case *appsv1.Deployment:
		return ofDeployment(o)
	case *appsv1.ReplicaSet:
		appsdefaults.SetObjectDefaults_ReplicaSet(o)
		return owned(o, &o.Spec.Template, o.Spec.Replicas)
	case *corev1.ReplicationController:
		if o.Spec.Template == nil {
			o.Spec.Template = &corev1.PodTemplateSpec{} // validate refuses it, as the API server does
		}
		coredefaults.SetObjectDefaults_ReplicationController(o)
		return owned(o, o.Spec.Template, o.Spec.Replicas)
	case *appsv1.StatefulSet:
		appsdefaults.SetObjectDefaults_StatefulSet(o)
		w := owned(o, &o.Spec.Template, o.Spec.Replicas)
		w.claims, w.ordinals = o.Spec.VolumeClaimTemplates, true
		w.firstOrdinal = int(ptr.Deref(o.Spec.Ordinals, appsv1.StatefulSetOrdinals{}).Start)
		return w
	case *appsv1.DaemonSet: // its pods have no node yet: the controller writes the node's name into their affinity
		appsdefaults.SetObjectDefaults_DaemonSet(o)
		daemonutil.AddOrUpdateDaemonPodTolerations(&o.Spec.Template.Spec)
		w := owned(o, &o.Spec.Template, nil)
		w.Owner = nil
		return w
	case *batchv1.Job:
		parallelism := ptr.Deref(o.Spec.Parallelism, 1)
		atATime := min(parallelism, ptr.Deref(o.Spec.Completions, parallelism))
		w := owned(o, &o.Spec.Template, &atATime)
		w.Owner = nil
		w.meta.Labels = labels.CloneAndAddLabel(labels.CloneAndAddLabel(w.meta.Labels, batchv1.JobNameLabel, o.Name), "job-name", o.Name)
		return w
	case *batchv1.CronJob: // its next Job, whose name ends with the minutes since 1970
		job := &batchv1.Job{ObjectMeta: o.Spec.JobTemplate.ObjectMeta, Spec: o.Spec.JobTemplate.Spec}
		job.Namespace, job.Name = o.Namespace, o.Name+"-00000000"
		w := Of(job)
		w.Kind, w.Name = "CronJob", o.Name
		return w
	}
	return nil
}

// ofDeployment derives the ReplicaSet's name and labels as the controller of Deployments does.
func ofDeployment(d *appsv1.Deployment) *Workload {
	appsdefaults.SetObjectDefaults_Deployment(d)
	hash := controller.ComputeHash(&d.Spec.Template, nil)
	template, selector := d.Spec.Template.DeepCopy(), ptr.Deref(d.Spec.Selector, metav1.LabelSelector{})
	template.Labels = labels.CloneAndAddLabel(template.Labels, appsv1.DefaultDeploymentUniqueLabelKey, hash)
	w := Of(&appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name + "-" + hash},
		Spec: appsv1.ReplicaSetSpec{
			Selector: labels.CloneSelectorAndAddLabel(&selector, appsv1.DefaultDeploymentUniqueLabelKey, hash),
			Template: *template, Replicas: d.Spec.Replicas,
		},
	})
	w.Kind, w.Name = "Deployment", d.Name
	return w
}

func owned(object runtime.Object, template *corev1.PodTemplateSpec, replicas *int32) *Workload {
	kinds, _, _ := scheme.Scheme.ObjectKinds(object) // never fails for the kinds of Of
	kind, owner := kinds[0].Kind, object.(metav1.Object)
	if owner.GetUID() == "" {
		owner.SetUID(types.UID(fmt.Sprintf("manifest/%s/%s/%s", kind, owner.GetNamespace(), owner.GetName())))
	}
	return &Workload{
		Kind: kind, Namespace: owner.GetNamespace(), Name: owner.GetName(), Replicas: int(ptr.Deref(replicas, 1)), Owner: object,
		spec: template.Spec, meta: metav1.ObjectMeta{
			Namespace: owner.GetNamespace(), Labels: template.Labels, Annotations: template.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, kinds[0])},
		},
	}
}

// Pod returns the pod of an index from 0 with its claims. It has the API server's defaults and a UID, and no node.
// Pods share one map of labels. Each decision reads the labels of all pods, and one map stays in the processor's cache.
func (w *Workload) Pod(index int) (*corev1.Pod, []*corev1.PersistentVolumeClaim) {
	pod := &corev1.Pod{ObjectMeta: *w.meta.DeepCopy(), Spec: *w.spec.DeepCopy()}
	pod.Labels, pod.Name = w.meta.Labels, w.Name
	ordinal := strconv.Itoa(w.firstOrdinal + index)
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		pod.Name = owner.Name + "-" + ordinal
	} else if index > 0 {
		pod.Name += "-" + ordinal
	}
	pod.UID = types.UID(fmt.Sprintf("manifest/%s/%s/%s/%d", w.Kind, w.Namespace, w.Name, index))
	pod.Status.Phase = corev1.PodPending
	if w.ordinals {
		pod.Labels = labels.CloneAndAddLabel(
			labels.CloneAndAddLabel(pod.Labels, appsv1.StatefulSetPodNameLabel, pod.Name), appsv1.PodIndexLabel, ordinal)
	}
	var claims []*corev1.PersistentVolumeClaim
	for i := range w.claims {
		claim, volume := w.claims[i].DeepCopy(), w.claims[i].Name
		claim.Namespace, claim.Name = w.Namespace, volume+"-"+pod.Name
		claim.UID = types.UID("manifest/" + claim.Namespace + "/" + claim.Name)
		coredefaults.SetObjectDefaults_PersistentVolumeClaim(claim)
		pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == volume })
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
		}})
		claims = append(claims, claim)
	}
	coredefaults.SetObjectDefaults_Pod(pod)
	return pod, claims
}

// validate returns the first mistake for which the API server would refuse the workload's pods.
func (w *Workload) validate() error {
	pod, _ := w.Pod(0)
	var internal core.Pod
	if err := coredefaults.Convert_v1_Pod_To_core_Pod(pod, &internal, nil); err != nil {
		return err
	}
	options := podapi.GetValidationOptionsFromPodSpecAndMeta(&internal.Spec, nil, &internal.ObjectMeta, nil)
	if errs := validation.ValidatePodCreate(&internal, options); len(errs) > 0 {
		return fmt.Errorf("its pods: %w", errs[0])
	}
	return nil
}

// Owns reports whether the workload owns or is a pod of its namespace.
func (w *Workload) Owns(pod *corev1.Pod) bool {
	owner, kind := metav1.GetControllerOfNoCopy(pod), map[string]string{"Deployment": "ReplicaSet", "CronJob": "Job"}[w.Kind]
	if w.Kind == "Pod" || owner == nil {
		return w.Kind == "Pod" && pod.Name == w.Name
	}
	if kind == "" {
		return owner.Kind == w.Kind && owner.Name == w.Name
	}
	of, _ := learned.OwnerOf(pod)
	return owner.Kind == kind && of.Name == w.Name
}

// Creator builds the pods that controllers would create. It does not call the API server. Use NewCreator.
type Creator struct {
	// Added are objects that pods or the scheduler need and the cluster lacks.
	Added   []runtime.Object
	Notes   []string
	known   map[string]bool
	classes []*storagev1.StorageClass
}

// NewCreator returns a creator for a cluster of the given objects.
func NewCreator(objects []runtime.Object) *Creator {
	c := &Creator{known: map[string]bool{}}
	for _, object := range objects {
		c.register(object)
		if class, ok := object.(*storagev1.StorageClass); ok {
			c.classes = append(c.classes, class)
		}
	}
	return c
}

// register reports whether the object was new.
func (c *Creator) register(object runtime.Object) bool {
	meta := object.(metav1.Object)
	key := fmt.Sprintf("%T %s/%s", object, meta.GetNamespace(), meta.GetName())
	isNew := !c.known[key]
	c.known[key] = true
	return isNew
}

// Add adds the object, unless the cluster has it.
func (c *Creator) Add(object runtime.Object) {
	if c.register(object) {
		c.Added = append(c.Added, object)
	}
}

// Note adds a note, once.
func (c *Creator) Note(format string, args ...any) {
	if note := fmt.Sprintf(format, args...); !slices.Contains(c.Notes, note) {
		c.Notes = append(c.Notes, note)
	}
}

// NoteIgnored notes the objects of a file that are not placed.
func (c *Creator) NoteIgnored(m *Manifest) {
	if len(m.Ignored) > 0 {
		c.Note("Ignored objects of the file: %s", text.FirstN(m.Ignored))
	}
}

// Create returns the next pods of the workload, after admission. alike reports whether they all fit the same nodes.
func (c *Creator) Create(w *Workload, count int, admission *Admission) (pods []*corev1.Pod, alike bool, err error) {
	if w.Owner != nil {
		c.Add(w.Owner)
	}
	for index := 0; len(pods) < count; index++ {
		pod, claims := w.Pod(index)
		if !c.register(pod) {
			continue
		}
		if err := admission.Admit(pod); err != nil {
			return nil, false, fmt.Errorf("%s: %w", w, err)
		}
		if pod.Spec.NodeName != "" {
			c.Note("%s: spec.nodeName is %s, which bypasses every scheduler. The pod is placed without it", w, pod.Spec.NodeName)
			pod.Spec.NodeName = ""
		}
		if class := pod.Spec.RuntimeClassName; class != nil {
			c.Note("%s: the overhead, node selector and tolerations of RuntimeClass %s are not added", w, *class)
		}
		for _, claim := range claims {
			c.addClaim(pod, claim)
		}
		pods = append(pods, pod)
	}
	return pods, len(w.claims) == 0, nil
}

// addClaim adds the pod's claim. A volume that is provisioned before its pod is placed can be in any zone, so the pod loses it.
func (c *Creator) addClaim(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) {
	if !c.register(claim) {
		return
	}
	name := claim.Spec.StorageClassName
	i := slices.IndexFunc(c.classes, func(class *storagev1.StorageClass) bool {
		isDefault := class.Annotations[storageutil.IsDefaultStorageClassAnnotation] == "true"
		return name != nil && class.Name == *name || name == nil && isDefault
	})
	if i >= 0 {
		claim.Spec.StorageClassName = &c.classes[i].Name
	}
	if i < 0 || ptr.Deref(c.classes[i].VolumeBindingMode, storagev1.VolumeBindingImmediate) != storagev1.VolumeBindingImmediate {
		c.Added = append(c.Added, claim)
		return
	}
	pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim.Name
	})
	c.Note("The StorageClass %s binds volumes before pods are placed, so their zone is unknown: these volumes are ignored",
		c.classes[i].Name)
}

// Admission adds priorities and LimitRange defaults to pods, without webhooks, quotas and RuntimeClasses. The zero value adds none.
type Admission struct {
	PriorityClasses []schedulingv1.PriorityClass
	// LimitRanges are those of the manifest's namespaces, by namespace.
	LimitRanges map[string][]corev1.LimitRange
	Missing     []cluster.MissingKind
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
	namespaces := text.Each(m.Workloads, func(w *Workload) string { return w.Namespace })
	for _, namespace := range slices.Compact(slices.Sorted(slices.Values(namespaces))) {
		ranges, err := conn.Client.CoreV1().LimitRanges(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			a.Missing = append(a.Missing, conn.Missing(ctx, "", "limitranges", err))
			break
		}
		a.LimitRanges[namespace] = ranges.Items
	}
	return a
}

// Admit changes the pod as the API server would. It fails if the pod names a PriorityClass that does not exist.
func (a *Admission) Admit(pod *corev1.Pod) error {
	for i := range a.LimitRanges[pod.Namespace] {
		for _, item := range a.LimitRanges[pod.Namespace][i].Spec.Limits {
			for c := range podutil.ContainerIter(&pod.Spec, podutil.InitContainers|podutil.Containers) {
				if r := &c.Resources; item.Type == corev1.LimitTypeContainer {
					r.Limits, r.Requests = withDefaults(r.Limits, item.Default), withDefaults(r.Requests, item.DefaultRequest)
				}
			}
		}
	}
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

func withDefaults(list, defaults corev1.ResourceList) corev1.ResourceList {
	all := corev1.ResourceList{}
	maps.Copy(all, defaults)
	maps.Copy(all, list)
	return all
}

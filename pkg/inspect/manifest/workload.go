package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	podapi "k8s.io/kubernetes/pkg/api/pod"
	appsdefaults "k8s.io/kubernetes/pkg/apis/apps/v1"
	"k8s.io/kubernetes/pkg/apis/core"
	coredefaults "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/controller"
	daemonutil "k8s.io/kubernetes/pkg/controller/daemon/util"
	"k8s.io/kubernetes/pkg/util/labels"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
)

// Workload is a pod, or an object that creates pods.
type Workload struct {
	Kind, Namespace, Name string
	// Replicas is the number of pods: 1 for a Pod, and the parallelism of a Job.
	Replicas int
	// Owner is a ReplicaSet, StatefulSet or ReplicationController. The scheduler spreads pods by its selector, and reads no others.
	Owner runtime.Object

	// meta and spec are the pod template's.
	meta metav1.ObjectMeta
	spec corev1.PodSpec
	// claims are a StatefulSet's claim templates. Its pods have ordinals, from firstOrdinal on.
	claims       []corev1.PersistentVolumeClaim
	ordinals     bool
	firstOrdinal int
}

// String returns kind, namespace and name.
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
	const label = appsv1.DefaultDeploymentUniqueLabelKey
	appsdefaults.SetObjectDefaults_Deployment(d)
	hash := controller.ComputeHash(&d.Spec.Template, nil)
	template, selector := d.Spec.Template.DeepCopy(), ptr.Deref(d.Spec.Selector, metav1.LabelSelector{})
	template.Labels = labels.CloneAndAddLabel(template.Labels, label, hash)
	w := Of(&appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name + "-" + hash},
		Spec: appsv1.ReplicaSetSpec{
			Selector: labels.CloneSelectorAndAddLabel(&selector, label, hash), Template: *template, Replicas: d.Spec.Replicas,
		},
	})
	w.Kind, w.Name = "Deployment", d.Name
	return w
}

// object is an object of Kubernetes, with metadata.
type object interface {
	runtime.Object
	metav1.Object
}

func owned(owner object, template *corev1.PodTemplateSpec, replicas *int32) *Workload {
	kinds, _, _ := scheme.Scheme.ObjectKinds(owner) // never fails for the kinds of Of
	kind := kinds[0].Kind
	if owner.GetUID() == "" {
		owner.SetUID(types.UID(fmt.Sprintf("manifest/%s/%s/%s", kind, owner.GetNamespace(), owner.GetName())))
	}
	return &Workload{
		Kind: kind, Namespace: owner.GetNamespace(), Name: owner.GetName(), Replicas: int(ptr.Deref(replicas, 1)), Owner: owner,
		spec: template.Spec, meta: metav1.ObjectMeta{
			Namespace: owner.GetNamespace(), Labels: template.Labels, Annotations: template.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, kinds[0])},
		},
	}
}

// Pod returns the pod of an index from 0 with its claims. It has the API server's defaults and a UID, and no node.
//
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
		claims = append(claims, w.claim(pod, &w.claims[i]))
	}
	coredefaults.SetObjectDefaults_Pod(pod)
	return pod, claims
}

// claim returns a StatefulSet's claim for the pod, and makes the pod use it.
func (w *Workload) claim(pod *corev1.Pod, template *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	claim := template.DeepCopy()
	claim.Namespace, claim.Name = w.Namespace, template.Name+"-"+pod.Name
	claim.UID = types.UID("manifest/" + claim.Namespace + "/" + claim.Name)
	coredefaults.SetObjectDefaults_PersistentVolumeClaim(claim)
	pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == template.Name })
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: template.Name, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
	}})
	return claim
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
	owner := metav1.GetControllerOfNoCopy(pod)
	switch {
	case w.Kind == "Pod":
		return pod.Name == w.Name
	case owner == nil:
		return false
	case w.Kind == "Deployment":
		return owner.Kind == "ReplicaSet" && owner.Name == w.Name+"-"+pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	case w.Kind == "CronJob":
		of, _ := learned.OwnerOf(pod)
		return owner.Kind == "Job" && of.Name == w.Name
	}
	return owner.Kind == w.Kind && owner.Name == w.Name
}

package manifest

import (
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	podapi "k8s.io/kubernetes/pkg/api/pod"
	appsdefaults "k8s.io/kubernetes/pkg/apis/apps/v1"
	"k8s.io/kubernetes/pkg/apis/core"
	coredefaults "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	daemonutil "k8s.io/kubernetes/pkg/controller/daemon/util"
	hashutil "k8s.io/kubernetes/pkg/util/hash"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
)

// Workload is a pod, or an object that creates pods.
type Workload struct {
	Kind, Namespace, Name string
	// Replicas is the number of pods: 1 for a Pod, and the parallelism of a Job.
	Replicas int
	// Owner controls the pods: the object itself, or the ReplicaSet of a Deployment; nil for a pod and a DaemonSet.
	Owner runtime.Object

	// selector is the object's; nil if its kind needs none. meta and spec are the pod template's.
	selector *metav1.LabelSelector
	meta     metav1.ObjectMeta
	spec     corev1.PodSpec
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
		return ofPod(o)
	case *appsv1.Deployment:
		return ofDeployment(o)
	case *appsv1.ReplicaSet:
		return ofReplicaSet(o)
	case *corev1.ReplicationController:
		return ofReplicationController(o)
	case *appsv1.StatefulSet:
		return ofStatefulSet(o)
	case *appsv1.DaemonSet:
		return ofDaemonSet(o)
	case *batchv1.Job:
		return ofJob(o)
	case *batchv1.CronJob:
		return ofCronJob(o)
	}
	return nil
}

func ofPod(pod *corev1.Pod) *Workload {
	if pod.Name == "" {
		pod.Name = pod.GenerateName + "0"
	}
	w := &Workload{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, Replicas: 1, spec: pod.Spec}
	w.meta.Namespace, w.meta.Labels, w.meta.Annotations = pod.Namespace, pod.Labels, pod.Annotations
	w.meta.OwnerReferences = pod.OwnerReferences
	return w
}

func ofDeployment(d *appsv1.Deployment) *Workload {
	appsdefaults.SetObjectDefaults_Deployment(d)
	hash := templateHash(&d.Spec.Template)
	template, selector := d.Spec.Template.DeepCopy(), d.Spec.Selector.DeepCopy()
	template.Labels = with(template.Labels, appsv1.DefaultDeploymentUniqueLabelKey, hash)
	if selector != nil {
		selector.MatchLabels = with(selector.MatchLabels, appsv1.DefaultDeploymentUniqueLabelKey, hash)
	}
	w := ofReplicaSet(&appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name + "-" + hash},
		Spec:       appsv1.ReplicaSetSpec{Selector: selector, Template: *template, Replicas: d.Spec.Replicas},
	})
	w.Kind, w.Name, w.selector = "Deployment", d.Name, d.Spec.Selector
	return w
}

// templateHash returns the label pod-template-hash that the controller of Deployments derives from the template.
func templateHash(template *corev1.PodTemplateSpec) string {
	h := fnv.New32a()
	hashutil.DeepHashObject(h, *template)
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10))
}

func ofReplicaSet(rs *appsv1.ReplicaSet) *Workload {
	appsdefaults.SetObjectDefaults_ReplicaSet(rs)
	w := owned("ReplicaSet", "apps/v1", rs, &rs.ObjectMeta, &rs.Spec.Template, rs.Spec.Replicas)
	w.selector = rs.Spec.Selector
	return w
}

func ofReplicationController(rc *corev1.ReplicationController) *Workload {
	if rc.Spec.Template == nil {
		rc.Spec.Template = &corev1.PodTemplateSpec{} // validate refuses it, as the API server does
	}
	coredefaults.SetObjectDefaults_ReplicationController(rc)
	w := owned("ReplicationController", "v1", rc, &rc.ObjectMeta, rc.Spec.Template, rc.Spec.Replicas)
	w.selector = &metav1.LabelSelector{MatchLabels: rc.Spec.Selector}
	return w
}

func ofStatefulSet(s *appsv1.StatefulSet) *Workload {
	appsdefaults.SetObjectDefaults_StatefulSet(s)
	w := owned("StatefulSet", "apps/v1", s, &s.ObjectMeta, &s.Spec.Template, s.Spec.Replicas)
	w.selector, w.claims, w.ordinals = s.Spec.Selector, s.Spec.VolumeClaimTemplates, true
	if s.Spec.Ordinals != nil {
		w.firstOrdinal = int(s.Spec.Ordinals.Start)
	}
	return w
}

// ofDaemonSet returns a workload whose pods have no node yet: the controller writes its name into their affinity.
func ofDaemonSet(d *appsv1.DaemonSet) *Workload {
	appsdefaults.SetObjectDefaults_DaemonSet(d)
	daemonutil.AddOrUpdateDaemonPodTolerations(&d.Spec.Template.Spec)
	w := owned("DaemonSet", "apps/v1", nil, &d.ObjectMeta, &d.Spec.Template, nil) // the scheduler does not read DaemonSets
	w.selector = d.Spec.Selector
	return w
}

func ofJob(job *batchv1.Job) *Workload {
	parallelism := ptr.Deref(job.Spec.Parallelism, 1)
	atATime := min(parallelism, ptr.Deref(job.Spec.Completions, parallelism))
	w := owned("Job", "batch/v1", job, &job.ObjectMeta, &job.Spec.Template, &atATime)
	w.meta.Labels = with(with(w.meta.Labels, batchv1.JobNameLabel, job.Name), "job-name", job.Name)
	return w
}

// ofCronJob returns the workload of a CronJob's next Job, whose name ends with the minutes since 1970.
func ofCronJob(c *batchv1.CronJob) *Workload {
	job := &batchv1.Job{ObjectMeta: c.Spec.JobTemplate.ObjectMeta, Spec: c.Spec.JobTemplate.Spec}
	job.Namespace, job.Name = c.Namespace, c.Name+"-00000000"
	w := ofJob(job)
	w.Kind, w.Name = "CronJob", c.Name
	return w
}

func owned(
	kind, version string, owner runtime.Object, meta *metav1.ObjectMeta, template *corev1.PodTemplateSpec, replicas *int32,
) *Workload {
	if meta.UID == "" {
		meta.UID = types.UID(fmt.Sprintf("manifest/%s/%s/%s", kind, meta.Namespace, meta.Name))
	}
	return &Workload{
		Kind: kind, Namespace: meta.Namespace, Name: meta.Name, Replicas: int(ptr.Deref(replicas, 1)), Owner: owner,
		meta: metav1.ObjectMeta{
			Namespace:   meta.Namespace,
			Labels:      template.Labels,
			Annotations: template.Annotations,
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: version, Kind: kind, Name: meta.Name, UID: meta.UID, Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)},
			},
		},
		spec: template.Spec,
	}
}

func with(m map[string]string, key, value string) map[string]string {
	m = maps.Clone(m)
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}

// validateSelector fails unless the selector matches the template, where the kind needs one.
func (w *Workload) validateSelector() error {
	if w.Kind == "Pod" || w.isJob() {
		return nil
	}
	if w.selector == nil {
		return errors.New("spec.selector: required")
	}
	s, err := metav1.LabelSelectorAsSelector(w.selector)
	if err != nil {
		return fmt.Errorf("spec.selector: %w", err)
	}
	if s.Empty() {
		return errors.New("spec.selector: empty; write the labels of spec.template")
	}
	if !s.Matches(labels.Set(w.meta.Labels)) {
		return fmt.Errorf("spec.template.metadata.labels: %q; write labels that spec.selector %q matches", labels.Set(w.meta.Labels), s)
	}
	return nil
}

// Pod returns the pod of an index from 0 with its claims. It has the API server's defaults and a UID, and no node.
//
// Pods share one map of labels. Each decision reads the labels of all pods, and one map stays in the processor's cache.
func (w *Workload) Pod(index int) (*corev1.Pod, []*corev1.PersistentVolumeClaim) {
	pod := &corev1.Pod{ObjectMeta: *w.meta.DeepCopy(), Spec: *w.spec.DeepCopy()}
	pod.Labels = w.meta.Labels
	pod.Name = w.Name
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		pod.Name = owner.Name + "-" + strconv.Itoa(w.firstOrdinal+index)
	} else if index > 0 {
		pod.Name += "-" + strconv.Itoa(index)
	}
	pod.UID = types.UID(fmt.Sprintf("manifest/%s/%s/%s/%d", w.Kind, w.Namespace, w.Name, index))
	pod.Status.Phase = corev1.PodPending
	var claims []*corev1.PersistentVolumeClaim
	if w.ordinals {
		ordinal := strconv.Itoa(w.firstOrdinal + index)
		pod.Labels = with(with(pod.Labels, appsv1.StatefulSetPodNameLabel, pod.Name), appsv1.PodIndexLabel, ordinal)
		for i := range w.claims {
			claims = append(claims, w.claim(pod, &w.claims[i]))
		}
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
	volume := corev1.Volume{Name: template.Name, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
	}}
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Name == volume.Name {
			pod.Spec.Volumes[i] = volume
			return claim
		}
	}
	pod.Spec.Volumes = append(pod.Spec.Volumes, volume)
	return claim
}

// validate returns the first mistake for which the API server would refuse the workload or its pods.
func (w *Workload) validate() error {
	if w.Name == "" {
		return errors.New("metadata.name: required")
	}
	if w.Replicas < 0 {
		return fmt.Errorf("replicas: %d; write 0 or more", w.Replicas)
	}
	if err := w.validateSelector(); err != nil {
		return err
	}
	pod, _ := w.Pod(0)
	if pod.Spec.RestartPolicy == corev1.RestartPolicyAlways && w.isJob() {
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever // Always is the default of pods; Jobs have no default
	}
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
	}
	if w.Kind == "CronJob" {
		of, _ := learned.OwnerOf(pod)
		return owner.Kind == "Job" && of.Name == w.Name
	}
	return owner.Kind == w.Kind && owner.Name == w.Name
}

func (w *Workload) isJob() bool { return w.Kind == "Job" || w.Kind == "CronJob" }

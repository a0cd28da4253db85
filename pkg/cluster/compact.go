package cluster

import (
	"crypto/sha256"
	"reflect"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/internal/informer"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
)

// Compactor makes long-lived nodes and pods smaller. It drops fields that no scheduler, plugin or command reads. Equal parts of
// objects share memory, such as the containers of a workload's pods, so these must not be changed.
type Compactor struct {
	mu sync.Mutex
	// shared are parts of objects.
	shared map[partKey]any
	// words are strings that many objects have.
	words map[string]string
}

// partKey identifies a part by its type and the hash of its protobuf encoding. All empty parts have one encoding.
type partKey struct {
	of   reflect.Type
	hash [sha256.Size]byte
}

// maxShared bounds the parts and the words. Beyond it, the map is emptied.
const maxShared = 50_000

// Compact changes and returns an object, which must have no other user yet. It is an idempotent cache.TransformFunc.
func (c *Compactor) Compact(object any) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch o := object.(type) {
	case *corev1.Node:
		c.compactMeta(&o.ObjectMeta)
		o.Status.Capacity = share(c, o.Status.Capacity, &corev1.NodeStatus{Capacity: o.Status.Capacity})
		o.Status.Allocatable = share(c, o.Status.Allocatable, &corev1.NodeStatus{Capacity: o.Status.Allocatable})
		for i := range o.Status.Images {
			names := &o.Status.Images[i].Names
			*names = share(c, *names, &corev1.ContainerImage{Names: *names})
		}
	case *corev1.Pod:
		c.compactPod(o)
	}
	return informer.WithoutManagedFields(object)
}

func (c *Compactor) compactMeta(m *metav1.ObjectMeta) {
	if m.Annotations[corev1.LastAppliedConfigAnnotation] != "" { // without it, the map may be shared and must not be written
		delete(m.Annotations, corev1.LastAppliedConfigAnnotation)
	}
	m.Labels = share(c, m.Labels, &metav1.ObjectMeta{Labels: m.Labels})
	m.Annotations = share(c, m.Annotations, &metav1.ObjectMeta{Annotations: m.Annotations})
	m.OwnerReferences = share(c, m.OwnerReferences, &metav1.ObjectMeta{OwnerReferences: m.OwnerReferences})
}

func (c *Compactor) compactPod(pod *corev1.Pod) {
	c.compactMeta(&pod.ObjectMeta)
	shareWords(c, &pod.Namespace, &pod.GenerateName)
	if workloadOf("Pod", pod.ObjectMeta, pod.Spec) == nil { // commands read flags and files of schedulers
		dropUnread(&pod.Spec)
	}
	c.shareSpec(&pod.Spec)
	status := &pod.Status
	status.HostIP, status.HostIPs, status.PodIP = "", nil, "" // sources' targets are found by PodIPs
	shareWords(c, &status.Phase)
	shareWords(c, &status.QOSClass)
	c.compactStatuses(status.ContainerStatuses)
	c.compactStatuses(status.InitContainerStatuses)
	status.Conditions = slices.DeleteFunc(status.Conditions, func(condition corev1.PodCondition) bool {
		return slices.Contains(unreadConditions, condition.Type)
	})
	status.Conditions = slices.Clone(status.Conditions) // frees the space of the deleted ones
	for i := range status.Conditions {
		shareWords(c, &status.Conditions[i].Type)
		shareWords(c, &status.Conditions[i].Status)
		shareWords(c, &status.Conditions[i].Reason)
	}
}

// shareSpec shares the spec of a workload's pods, and apart from it the fields in which they may differ.
func (c *Compactor) shareSpec(spec *corev1.PodSpec) {
	shareWords(c, &spec.NodeName)
	nodeName, hostname := spec.NodeName, spec.Hostname
	affinity := share(c, spec.Affinity, &corev1.PodSpec{Affinity: spec.Affinity}) // of a DaemonSet's pods, it names the node
	volumes := share(c, spec.Volumes, &corev1.PodSpec{Volumes: spec.Volumes})     // of a StatefulSet's pods, they have own claims
	common := *spec
	common.NodeName, common.Hostname, common.Affinity, common.Volumes = "", "", nil, nil
	*spec = *share(c, &common, &common)
	spec.NodeName, spec.Hostname, spec.Affinity, spec.Volumes = nodeName, hostname, affinity, volumes
}

func (c *Compactor) compactStatuses(statuses []corev1.ContainerStatus) {
	for i := range statuses {
		s := &statuses[i]
		shareWords(c, &s.Name)
		s.Image, s.ImageID, s.ContainerID, s.VolumeMounts, s.Started = "", "", "", nil, nil
		s.LastTerminationState, s.AllocatedResourcesStatus, s.User = corev1.ContainerState{}, nil, nil
		s.AllocatedResources = share(c, s.AllocatedResources, &corev1.ContainerStatus{AllocatedResources: s.AllocatedResources})
		s.Resources = share(c, s.Resources, &corev1.ContainerStatus{Resources: s.Resources})
	}
}

// unreadConditions describe a pod's start, for which commands read the containers' statuses.
var unreadConditions = []corev1.PodConditionType{corev1.PodInitialized, corev1.ContainersReady, corev1.PodReadyToStartContainers}

// dropUnread drops fields that are only read of schedulers' pods. Commands stay, because doctor looks for programs.
func dropUnread(spec *corev1.PodSpec) {
	spec.Containers, spec.InitContainers = withoutUnread(spec.Containers), withoutUnread(spec.InitContainers)
	spec.Volumes = slices.DeleteFunc(slices.Clone(spec.Volumes), func(v corev1.Volume) bool {
		return v.Secret != nil || v.DownwardAPI != nil || v.Projected != nil
	})
}

// withoutUnread returns new containers, because the old ones may be shared.
func withoutUnread(containers []corev1.Container) []corev1.Container {
	containers = slices.Clone(containers)
	for i := range containers {
		c := &containers[i]
		c.Args, c.WorkingDir, c.Env, c.EnvFrom = nil, "", nil, nil
		c.LivenessProbe, c.ReadinessProbe, c.StartupProbe, c.Lifecycle = nil, nil, nil, nil
		c.TerminationMessagePath, c.TerminationMessagePolicy, c.ImagePullPolicy = "", "", ""
		// The scheduler reads mounts with options only. Names of other mounts differ by pod.
		c.VolumeMounts = slices.DeleteFunc(slices.Clone(c.VolumeMounts), func(m corev1.VolumeMount) bool {
			return !minor.HasMountOptions(&m)
		})
	}
	return containers
}

// shareWords makes strings use the memory of equal strings of earlier objects.
func shareWords[T ~string](c *Compactor, words ...*T) {
	for _, word := range words {
		if shared, ok := c.words[string(*word)]; ok {
			*word = T(shared)
			continue
		}
		if c.words == nil || len(c.words) >= maxShared {
			c.words = map[string]string{}
		}
		c.words[string(*word)] = string(*word)
	}
}

// share returns an equal part of an earlier object, or else the part itself. message has nothing but the part, to encode it.
func share[T any](c *Compactor, part T, message interface{ Marshal() ([]byte, error) }) T {
	encoded, err := message.Marshal()
	if err != nil {
		return part
	}
	key := partKey{reflect.TypeFor[T](), sha256.Sum256(encoded)}
	if shared, ok := c.shared[key].(T); ok {
		return shared
	}
	if c.shared == nil || len(c.shared) >= maxShared {
		c.shared = map[partKey]any{}
	}
	c.shared[key] = part
	return part
}

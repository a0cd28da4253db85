package memory

import (
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/internal/program"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/perf/heap"
)

const (
	pagePods     = 10_000
	podsPerNode  = 20
	podsOfOneSet = 25
)

// pagePod returns a pod as an API server stores it: one of a ReplicaSet's, or one of a DaemonSet's on each node.
func pagePod(i int) *corev1.Pod {
	set, kind, node := fmt.Sprint("service-", i/podsOfOneSet), "ReplicaSet", fmt.Sprint("node-", i/podsPerNode)
	if i%podsPerNode == 0 {
		set, kind = "agent", "DaemonSet"
	}
	began := metav1.NewTime(start.AddDate(0, 0, -i%90))
	pod := st.MakePod().Namespace("shop").Name(fmt.Sprintf("%s-7d9f8c6b5d-%05x", set, i)).Node(node).
		UID(fmt.Sprintf("6f2b8f3e-7a41-4b52-9c1d-%012x", i)).Labels(map[string]string{"app": set, "pod-template-hash": "7d9f8c6b5d"}).
		Priority(0).SchedulerName("plimsoll").PreemptionPolicy(corev1.PreemptLowerPriority).Phase(corev1.PodRunning).StartTime(began).Obj()
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: set, UID: types.UID(set), Controller: new(true)}}
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	token := fmt.Sprintf("kube-api-access-%05x", i)
	requests := corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("256Mi")}
	spec, status := &pod.Spec, &pod.Status
	spec.Containers = []corev1.Container{{
		Name: "main", Image: "registry.example.com/" + set + ":v1", Command: []string{"/main"}, Args: []string{"--name=" + set},
		Env: []corev1.EnvVar{{Name: "NAME", Value: set}}, Resources: corev1.ResourceRequirements{Requests: requests},
		VolumeMounts:  []corev1.VolumeMount{{Name: token, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}},
		LivenessProbe: &corev1.Probe{PeriodSeconds: 10}, SecurityContext: &corev1.SecurityContext{RunAsNonRoot: new(true)},
	}}
	spec.Volumes = []corev1.Volume{{Name: token, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}}
	spec.SecurityContext, spec.ServiceAccountName = &corev1.PodSecurityContext{FSGroup: new(int64(1000))}, set
	spec.TerminationGracePeriodSeconds, spec.EnableServiceLinks = new(int64(30)), new(true)
	spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))}}
	if kind == "DaemonSet" {
		spec.Affinity = st.MakePod().NodeAffinityIn("metadata.name", []string{node}, st.NodeSelectorTypeMatchFields).Obj().Spec.Affinity
	}
	status.HostIP, status.PodIP = fmt.Sprint("10.0.0.", i), fmt.Sprint("100.64.0.", i)
	status.HostIPs, status.PodIPs = []corev1.HostIP{{IP: status.HostIP}}, []corev1.PodIP{{IP: status.PodIP}}
	for _, condition := range []corev1.PodConditionType{corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: began})
	}
	status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "main", Ready: true, Started: new(true), ImageID: set, ContainerID: fmt.Sprintf("containerd://%064x", i),
		State:              corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: began}},
		AllocatedResources: requests, Resources: &corev1.ResourceRequirements{Requests: requests},
	}}
	return pod
}

// TestPage bounds what kubectl plimsoll ui holds of each pod: the object, which it shares with the simulation, and what the
// scheduler and its informers hold of it. doctor's checks hold the latter once more.
func TestPage(t *testing.T) {
	before := heap.Live()
	var objects []apiruntime.Object
	for i := range pagePods / podsPerNode {
		objects = append(objects, st.MakeNode().Name(fmt.Sprint("node-", i)).
			Capacity(map[corev1.ResourceName]string{"cpu": "16", "memory": "64Gi", "pods": "110"}).Obj())
	}
	for i := range pagePods {
		encoded := check.Value(pagePod(i).Marshal())(t)
		pod := &corev1.Pod{}
		check.OK(t, pod.Unmarshal(encoded)) // with strings of its own, as a client decodes it
		check.Value(program.WithoutManagedFields(pod))(t)
		objects = append(objects, pod)
	}
	checkEach(t, "pod for objects", pagePods, before, 7200)
	before = heap.Live()
	configuration, _, err := scheme.Codecs.UniversalDecoder().Decode(
		[]byte(`{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}`), nil, nil)
	check.OK(t, err)
	s := check.Value(sim.New(t.Context(), sim.Options{
		Configuration: configuration.(*schedulerconfig.KubeSchedulerConfiguration), Objects: objects,
	}))(t)
	check.Value(s.NodeInfos(t.Context()))(t)
	checkEach(t, "pod for the simulation", pagePods, before, 550)
	runtime.KeepAlive(objects)
	runtime.KeepAlive(s)
}

package cluster

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// compactedPod returns a pod of a workload as the API server sends it.
func compactedPod(name string, command ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"app": "web"},
			Annotations:     map[string]string{corev1.LastAppliedConfigAnnotation: "{}", corev1.PodDeletionCost: "1"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web"}},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
		},
		Spec: corev1.PodSpec{
			NodeName: "n-" + name,
			Containers: []corev1.Container{{
				Name: "main", Image: "image", Command: command, Args: []string{"--config=/etc/c/c.yaml"},
				Env:       []corev1.EnvVar{{Name: "A", Value: "b"}},
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m")}},
				Ports:     []corev1.ContainerPort{{HostPort: 80}},
				VolumeMounts: []corev1.VolumeMount{
					{Name: "kube-api-access-" + name, MountPath: "/var"}, {Name: "config", MountPath: "/etc/c"},
				},
				LivenessProbe: &corev1.Probe{PeriodSeconds: 1}, ImagePullPolicy: corev1.PullAlways,
			}},
			Volumes: []corev1.Volume{
				{Name: "kube-api-access-" + name, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}},
				{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: "c"},
				}}},
				{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			},
			Tolerations: []corev1.Toleration{{Key: "a"}},
		},
		Status: corev1.PodStatus{
			Conditions: []corev1.PodCondition{{Type: corev1.PodInitialized}, {Type: corev1.PodReady}, {Type: corev1.PodScheduled}},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "main", RestartCount: 2, ImageID: "sha256:" + name,
				State:     corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
				Resources: &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m")}},
			}},
		},
	}
}

func TestCompactor_DropsWhatNobodyReads(t *testing.T) {
	var c Compactor
	pod := compactedPod("a", "app")
	pod.Spec.Containers[0].Args = nil
	if _, err := c.Compact(pod); err != nil {
		t.Fatal(err)
	}
	want := compactedPod("a", "app")
	want.ManagedFields = nil
	delete(want.Annotations, corev1.LastAppliedConfigAnnotation)
	container := &want.Spec.Containers[0]
	container.Args, container.Env, container.VolumeMounts = nil, nil, []corev1.VolumeMount{}
	container.LivenessProbe, container.ImagePullPolicy = nil, ""
	want.Spec.Volumes = want.Spec.Volumes[1:]
	want.Status.Conditions = want.Status.Conditions[1:]
	want.Status.ContainerStatuses[0].ImageID = ""
	if diff := cmp.Diff(want, pod); diff != "" {
		t.Error(diff)
	}
	shared := slices.Clone(pod.Spec.Containers)
	if _, err := c.Compact(pod); err != nil || !equality.Semantic.DeepEqual(shared, pod.Spec.Containers) {
		t.Errorf("a second call changes containers: %v", err)
	}
}

// readFields are fields of pods, and who reads them. Beside the scheduler, whose own reads are many, these are all of the status.
var readFields = map[string]string{
	"metadata.name":                               "all commands",
	"metadata.generateName":                       "statistics of workloads",
	"metadata.uid":                                "the scheduler",
	"metadata.resourceVersion":                    "evictions",
	"metadata.creationTimestamp":                  "the wait of pods",
	"metadata.deletionTimestamp":                  "the scheduler",
	"metadata.labels":                             "the scheduler",
	"metadata.annotations":                        "classes of pods",
	"metadata.ownerReferences":                    "statistics of workloads",
	"spec.affinity":                               "the scheduler",
	"spec.containers.command":                     "doctor",
	"spec.containers.image":                       "the score by images",
	"spec.containers.ports.hostPort":              "the scheduler",
	"spec.containers.resources":                   "the scheduler",
	"spec.containers.restartPolicy":               "the scheduler",
	"spec.hostNetwork":                            "targets of Prometheus",
	"spec.nodeName":                               "all commands",
	"spec.overhead":                               "the scheduler",
	"spec.priority":                               "preemption",
	"spec.preemptionPolicy":                       "preemption",
	"spec.resourceClaims":                         "the scheduler",
	"spec.resources":                              "the scheduler",
	"spec.schedulerName":                          "all commands",
	"spec.terminationGracePeriodSeconds":          "rebalance",
	"spec.tolerations":                            "the scheduler",
	"spec.topologySpreadConstraints":              "the scheduler",
	"status.conditions.type":                      "doctor",
	"status.conditions.reason":                    "the reason of waiting pods",
	"status.conditions.message":                   "the reason of waiting pods",
	"status.conditions.lastTransitionTime":        "pending usage",
	"status.containerStatuses.name":               "resized pods",
	"status.containerStatuses.ready":              "doctor",
	"status.containerStatuses.restartCount":       "pending usage",
	"status.containerStatuses.state":              "pending usage",
	"status.containerStatuses.allocatedResources": "resized pods",
	"status.containerStatuses.resources":          "resized pods",
	"status.nominatedNodeName":                    "the scheduler",
	"status.phase":                                "all commands",
	"status.podIPs":                               "targets of Prometheus",
	"status.resourceClaimStatuses":                "the scheduler",
	"status.startTime":                            "pending usage",
}

// droppedFields are all fields that are dropped of a pod with all fields.
var droppedFields = []string{
	"metadata.managedFields",
	"spec.containers.args", "spec.containers.env", "spec.containers.envFrom", "spec.containers.imagePullPolicy",
	"spec.containers.lifecycle", "spec.containers.livenessProbe", "spec.containers.readinessProbe", "spec.containers.startupProbe",
	"spec.containers.terminationMessagePath", "spec.containers.terminationMessagePolicy", "spec.containers.workingDir",
	"spec.volumes", // the only one is a secret
	"status.containerStatuses.allocatedResourcesStatus", "status.containerStatuses.containerID", "status.containerStatuses.image",
	"status.containerStatuses.imageID", "status.containerStatuses.lastState", "status.containerStatuses.started",
	"status.containerStatuses.user", "status.containerStatuses.volumeMounts",
	"status.hostIP", "status.hostIPs", "status.podIP",
}

func TestCompactor_DropsNoOtherField(t *testing.T) {
	full := func() *corev1.Pod {
		pod := &corev1.Pod{}
		fill(reflect.ValueOf(pod).Elem())
		pod.Spec.Containers[0].VolumeMounts, pod.Spec.InitContainers = nil, nil // see DropsWhatNobodyReads
		pod.Status.InitContainerStatuses = nil
		return pod
	}
	before, after := full(), full()
	var c Compactor
	if _, err := c.Compact(after); err != nil {
		t.Fatal(err)
	}
	lost := map[string]bool{}
	addLost(lost, "", reflect.ValueOf(before).Elem(), reflect.ValueOf(after).Elem())
	if diff := cmp.Diff(droppedFields, slices.Sorted(maps.Keys(lost))); diff != "" {
		t.Errorf("fields that are dropped (-want +got):\n%s", diff)
	}
	for field, reader := range readFields {
		for dropped := range lost {
			if field == dropped || strings.HasPrefix(field, dropped+".") {
				t.Errorf("%s is dropped; it is read by %s", field, reader)
			}
		}
	}
}

// fill sets a value, and all that it has, to what is not zero.
func fill(v reflect.Value) {
	switch of := v.Addr().Interface().(type) {
	case *metav1.Time:
		of.Time = time.Unix(1, 0)
		return
	case *resource.Quantity:
		*of = resource.MustParse("1")
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	default:
		v.Set(reflect.ValueOf(1).Convert(v.Type()))
	}
}

// addLost adds the JSON paths of values that before has and after lacks.
func addLost(lost map[string]bool, at string, before, after reflect.Value) {
	switch {
	case before.IsZero():
	case after.IsZero() || after.Kind() == reflect.Slice && after.Len() < before.Len():
		lost[at] = true
	case before.Kind() == reflect.Pointer:
		addLost(lost, at, before.Elem(), after.Elem())
	case before.Kind() == reflect.Slice:
		addLost(lost, at, before.Index(0), after.Index(0))
	case before.Kind() == reflect.Struct && before.Type() != reflect.TypeFor[metav1.Time]():
		for i := range before.NumField() {
			name, _, _ := strings.Cut(before.Type().Field(i).Tag.Get("json"), ",")
			addLost(lost, strings.TrimPrefix(strings.TrimSuffix(at+"."+name, "."), "."), before.Field(i), after.Field(i))
		}
	}
}

// doctor reads the flags, variables and files of schedulers, which it recognizes by the command, or by the flags.
func TestCompactor_KeepsSchedulers(t *testing.T) {
	for _, command := range []string{"/usr/bin/kube-scheduler", "script"} {
		var c Compactor
		pod := compactedPod("a", command)
		if _, err := c.Compact(pod); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(compactedPod("a", command).Spec, pod.Spec); diff != "" {
			t.Errorf("%s: %s", command, diff)
		}
	}
}

// Equal parts share memory; a part that differs in anything does not.
func TestCompactor_Shares(t *testing.T) {
	var c Compactor
	pods := []*corev1.Pod{compactedPod("a", "app"), compactedPod("b", "app"), compactedPod("c", "app")}
	for i, pod := range pods {
		pod.Spec.Containers[0].Args = nil
		if i == 2 {
			pod.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("200m")
		}
		if _, err := c.Compact(pod); err != nil {
			t.Fatal(err)
		}
	}
	a, b, other := pods[0], pods[1], pods[2]
	if &a.Spec.Containers[0] != &b.Spec.Containers[0] || &a.Spec.Volumes[0] != &b.Spec.Volumes[0] ||
		&a.OwnerReferences[0] != &b.OwnerReferences[0] ||
		a.Status.ContainerStatuses[0].Resources != b.Status.ContainerStatuses[0].Resources {
		t.Error("pods of a workload share nothing")
	}
	if cpu := other.Spec.Containers[0].Resources.Requests.Cpu(); cpu.MilliValue() != 200 || b.Spec.NodeName != "n-b" {
		t.Errorf("cpu %s at c, node %s of b; want 200m and n-b", cpu, b.Spec.NodeName)
	}
	images := func(name string) *corev1.Node {
		n := &corev1.Node{Status: corev1.NodeStatus{Images: []corev1.ContainerImage{{Names: []string{name}}}}}
		_, _ = c.Compact(n) // of a node, it fails never
		return n
	}
	n1, n2, n3 := images("i"), images("i"), images("j")
	if &n1.Status.Images[0].Names[0] != &n2.Status.Images[0].Names[0] || n3.Status.Images[0].Names[0] != "j" {
		t.Error("nodes with an image share its names, want those with another one to have theirs")
	}
}

// What is alike in the specs of a workload's pods is shared, even where each is bound to its own node, name and claim.
func TestCompactor_SharesSpecs(t *testing.T) {
	var c Compactor
	pod := func(name string) *corev1.Pod {
		p := compactedPod(name, "app")
		p.Spec.Hostname, p.Spec.Priority, p.Spec.Containers[0].Args = name, new(int32(5)), nil
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
				Weight: 1, Preference: corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Values: []string{name}}}},
			}},
		}}
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}}}
		return p
	}
	a, b, again := pod("a"), pod("b"), pod("a")
	for _, p := range []*corev1.Pod{a, b, again} {
		if _, err := c.Compact(p); err != nil {
			t.Fatal(err)
		}
	}
	if a.Spec.Priority != b.Spec.Priority || &a.Spec.Containers[0] != &b.Spec.Containers[0] {
		t.Error("pods of a workload do not share their priority and containers")
	}
	if again.Spec.Affinity != a.Spec.Affinity || &again.Spec.Volumes[0] != &a.Spec.Volumes[0] {
		t.Error("equal affinities and volumes are not shared")
	}
	for p, name := range map[*corev1.Pod]string{a: "a", b: "b", again: "a"} {
		want := pod(name).Spec
		if p.Spec.NodeName != want.NodeName || p.Spec.Hostname != name || !equality.Semantic.DeepEqual(p.Spec.Affinity, want.Affinity) ||
			!equality.Semantic.DeepEqual(p.Spec.Volumes, want.Volumes) {
			t.Errorf("pod %s has what is another's: %+v", name, p.Spec)
		}
	}
}

// Pods without volumes of their own hold no room for the ones that were dropped, whatever else is empty.
func TestCompactor_SharesWhatIsEmpty(t *testing.T) {
	var c Compactor
	pod := func() *corev1.Pod {
		p := compactedPod("a", "app")
		p.Spec.Volumes, p.Spec.Containers[0].Args = p.Spec.Volumes[:1], nil
		if _, err := c.Compact(p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	if a, b := pod().Spec.Volumes, pod().Spec.Volumes; len(a) > 0 || unsafe.SliceData(a) != unsafe.SliceData(b) {
		t.Errorf("%d volumes, or two arrays without any", len(a))
	}
}

// Pods of a node have one copy of its name, and their namespace's and scheduler's.
func TestCompactor_SharesWords(t *testing.T) {
	var c Compactor
	pod := func() *corev1.Pod {
		p := compactedPod("a")
		p.Namespace, p.Spec.NodeName, p.Spec.SchedulerName = strings.Clone("shop"), strings.Clone("node-1"), strings.Clone("plimsoll")
		p.Status.ContainerStatuses[0].Name = strings.Clone("main")
		if _, err := c.Compact(p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	words := func(p *corev1.Pod) []string {
		return []string{p.Namespace, p.Spec.NodeName, p.Spec.SchedulerName, p.Status.ContainerStatuses[0].Name}
	}
	first, second := words(pod()), words(pod())
	if diff := cmp.Diff([]string{"shop", "node-1", "plimsoll", "main"}, second); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for i := range first {
		if unsafe.StringData(first[i]) != unsafe.StringData(second[i]) {
			t.Errorf("two copies of %s", first[i])
		}
	}
}

// Held objects share parts with new ones, and are read meanwhile. The race detector finds writes.
func TestCompactor_WritesNothingShared(_ *testing.T) {
	var c Compactor
	held := compactedPod("a", "app")
	held.Spec.Containers[0].Args = nil
	_, _ = c.Compact(held) // of a pod, it never fails
	var group sync.WaitGroup
	group.Go(func() {
		for range 100 {
			_ = held.DeepCopy()
		}
	})
	for range 100 {
		arriving := compactedPod("b", "app")
		arriving.Spec.Containers[0].Args = nil
		_, _ = c.Compact(arriving)
		_, _ = c.Compact(arriving)
	}
	group.Wait()
}

// What is remembered is bounded.
func TestCompactor_Forgets(t *testing.T) {
	var c Compactor
	for i := range maxShared + 10 {
		share(&c, "", &corev1.PodSpec{NodeName: strings.Repeat("a", i%10) + string(rune(i))})
	}
	if len(c.shared) > maxShared {
		t.Errorf("%d parts are remembered, want at most %d", len(c.shared), maxShared)
	}
}

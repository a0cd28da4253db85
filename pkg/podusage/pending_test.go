package podusage

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// named returns a container with a name, a request and a limit of cpu.
func named(name, request, limit string) corev1.Container {
	c := container(both(request, limit))
	c.Name = name
	return c
}

// in returns the status of a named container.
func in(name string, state corev1.ContainerState) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: state}
}

func waiting(reason string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
}

var (
	running    = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	terminated = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
)

func TestBySpec_PendingUsage(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	one := []corev1.Container{named("a", "1", "2")}
	two := []corev1.Container{named("a", "1", "2"), named("b", "100m", "500m")}
	withInit := corev1.PodSpec{
		Containers:     two,
		InitContainers: []corev1.Container{named("init", "3", "3"), {Name: "sidecar", RestartPolicy: &always, Resources: both("200m", "300m")}},
	}
	for _, tc := range []struct {
		name string
		pod  corev1.Pod
		want float64
	}{
		{"a limit counts up to ten times its request", corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{named("a", "1m", "1k")}}}, 10},
		{"a limit below that counts in full", corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{named("a", "500m", "4")}}}, 4000},
		{"a limit beside a request of 0 counts nothing", corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{named("a", "0", "4")}}}, 0},
		{"each container has a bound of its own", corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{named("a", "1", "1"), named("b", "1m", "1k")}}}, 1010},
		{"the pod as a whole is bounded alike", corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}}, Resources: podLevel(both("1m", "1k"))}}, 10},
		{
			"containers without limit and request count the default once",
			corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}, {Name: "b"}, named("c", "100m", "200m")}}}, 1200,
		},
		{"a pod without requests counts the default", corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}}}}, 1000},

		{"a pod without statuses is about to start", corev1.Pod{Spec: corev1.PodSpec{Containers: two}}, 2500},
		{"a container that is created counts", statuses(one, in("a", waiting("ContainerCreating"))), 2000},
		{"a container behind init containers counts", statuses(one, in("a", waiting("PodInitializing"))), 2000},
		{"a container that waits for its image counts nothing", statuses(one, in("a", waiting("ImagePullBackOff"))), 0},
		{"a container in a crash loop counts nothing", statuses(one, in("a", waiting("CrashLoopBackOff"))), 0},
		{"a container with a wrong configuration counts nothing", statuses(one, in("a", waiting("CreateContainerConfigError"))), 0},
		{"a container that has ended counts nothing", statuses(one, in("a", terminated)), 0},
		{"the others of the pod count", statuses(two, in("a", waiting("ErrImagePull")), in("b", running)), 500},
		{
			"while an init container fails, nothing behind it counts", corev1.Pod{Spec: withInit, Status: corev1.PodStatus{
				InitContainerStatuses: []corev1.ContainerStatus{in("init", waiting("CrashLoopBackOff")), in("sidecar", waiting("PodInitializing"))},
				ContainerStatuses:     []corev1.ContainerStatus{in("a", waiting("PodInitializing")), in("b", waiting("PodInitializing"))},
			}}, 0,
		},
		{
			"a sidecar that runs counts while another init container fails", corev1.Pod{Spec: withInit, Status: corev1.PodStatus{
				InitContainerStatuses: []corev1.ContainerStatus{in("sidecar", running), in("init", waiting("CrashLoopBackOff"))},
				ContainerStatuses:     []corev1.ContainerStatus{in("a", waiting("PodInitializing")), in("b", waiting("PodInitializing"))},
			}}, 300,
		},
		{"pod-level resources count in full while all containers start", wholePod(both("1", "3"), two), 3000},
		{"they count up to the limits of the containers that run", wholePod(both("1", "3"), two, in("a", waiting("ErrImagePull")), in("b", running)), 500},
		{"it counts no more than itself", wholePod(both("100m", "400m"), two, in("a", waiting("ErrImagePull")), in("b", running)), 400},
		{
			"they count in full where a running container has no requests",
			wholePod(both("1", "3"), []corev1.Container{named("a", "1", "2"), {Name: "b"}}, in("a", waiting("ErrImagePull")), in("b", running)), 3000,
		},
		{"it counts nothing where no container runs", wholePod(both("1", "3"), one, in("a", waiting("ErrImagePull"))), 0},
		{
			// The API server derived the request of 1.1 from the containers, because the pod limits its memory.
			"a request that the API server derived does not count while a container waits",
			wholePod(corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse("1100m")}, Limits: corev1.ResourceList{"memory": resource.MustParse("1Gi")},
			}, two, in("a", waiting("ErrImagePull")), in("b", running)), 500,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := BySpec{Multiplier: 1.5, DefaultCPUMillis: 1000, MaxRequestRatio: 10}
			before := tc.pod.DeepCopy()
			got, byDefault := e.PendingUsage(&tc.pod)
			check.Equal(t, "PendingUsage() milliCPU", tc.want, got[load.CPU])
			e.DefaultCPUMillis = 0
			if other, _ := e.PendingUsage(&tc.pod); byDefault[load.CPU] != got[load.CPU]-other[load.CPU] {
				t.Errorf("%v of %v by default, but without default it is %v", byDefault[load.CPU], got[load.CPU], other[load.CPU])
			}
			if n, m := len(before.Spec.Containers), len(tc.pod.Spec.Containers); n != m ||
				before.Spec.Containers[0].Name != tc.pod.Spec.Containers[0].Name {
				t.Error("PendingUsage changes the pod")
			}
		})
	}
}

func statuses(containers []corev1.Container, statuses ...corev1.ContainerStatus) corev1.Pod {
	return corev1.Pod{Spec: corev1.PodSpec{Containers: containers}, Status: corev1.PodStatus{ContainerStatuses: statuses}}
}

// wholePod returns a pod that states resources for the pod as a whole.
func wholePod(whole corev1.ResourceRequirements, containers []corev1.Container, status ...corev1.ContainerStatus) corev1.Pod {
	pod := statuses(containers, status...)
	pod.Spec.Resources = &whole
	return pod
}

func TestPendingRequest(t *testing.T) {
	two := []corev1.Container{named("a", "1", "2"), named("b", "100m", "500m")}
	unset := []corev1.Container{named("a", "1", "2"), {Name: "b"}}
	oneWaits := []corev1.ContainerStatus{in("a", waiting("ImagePullBackOff")), in("b", running)}
	for _, tc := range []struct {
		name string
		pod  corev1.Pod
		want float64
	}{
		{"without pod-level resources, that of the container that runs", statuses(two, oneWaits...), 100},
		{"in full while all containers start", wholePod(both("2", "3"), two), 2000},
		{"up to the requests of the containers that run", wholePod(both("2", "3"), two, oneWaits...), 100},
		{"no more than itself", wholePod(both("50m", "3"), two, oneWaits...), 50},
		{"in full where a container that runs requests nothing", wholePod(both("2", "3"), unset, oneWaits...), 2000},
		{"nothing where no container runs", wholePod(both("2", "3"), two[:1], oneWaits[0]), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			check.Equal(t, "PendingRequest() milliCPU", tc.want, PendingRequest(&tc.pod)[load.CPU])
		})
	}
}

func TestQuantitiesSaturate(t *testing.T) {
	const most = float64(math.MaxInt64)
	for _, tc := range []struct {
		quantity      string
		millis, units float64
	}{
		{"0", 0, 0},
		{"1", 1000, 1},
		{"100m", 100, 1}, // Value rounds up
		{"0.1m", 1, 1},   // and so does MilliValue
		{"-1", 0, 0},
		{"9223372036854775", 9223372036854775000, 9223372036854775}, // the last before milli wraps
		{"9223372036854776", most, 9223372036854776},
		{"9223372036854775807", most, most},
		{"1E", most, 1e18},
		{"16E", most, most},
		{"1e30", most, most},
		{"-1e30", 0, 0},
		{"8Ei", most, most},
	} {
		q := resource.MustParse(tc.quantity)
		check.Equal(t, fmt.Sprintf("Millis(%s)", tc.quantity), tc.millis, Millis(q))
		check.Equal(t, fmt.Sprintf("Units(%s)", tc.quantity), tc.units, Units(q))
	}
}

// drawQuantity draws a quantity that the API server accepts for a resource: any number ≥ 0 with any suffix.
func drawQuantity(t *rapid.T, label string) resource.Quantity {
	suffixes := []string{"n", "u", "m", "", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e-9", "e12", "e30"}
	text := fmt.Sprintf("%d.%d%s", rapid.Uint64().Draw(t, label), rapid.Uint32().Draw(t, label+" fraction"),
		rapid.SampledFrom(suffixes).Draw(t, label+" suffix"))
	return resource.MustParse(text)
}

func TestEstimates_AnyQuantity(t *testing.T) {
	e := BySpec{Multiplier: 1.5, DefaultCPUMillis: 1000, MaxRequestRatio: 10}
	rapid.Check(t, func(t *rapid.T) {
		request, limit, larger := drawQuantity(t, "request"), drawQuantity(t, "limit"), drawQuantity(t, "larger")
		if larger.Cmp(limit) < 0 {
			limit, larger = larger, limit
		}
		if request.Cmp(limit) > 0 {
			request = limit // the API server accepts no other
		}
		podOf := func(limit resource.Quantity) *corev1.Pod {
			list := func(q resource.Quantity) corev1.ResourceList {
				return corev1.ResourceList{corev1.ResourceCPU: q, corev1.ResourceMemory: q}
			}
			return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
				{Resources: corev1.ResourceRequirements{Requests: list(request), Limits: list(limit)}}, container(requests("cpu", "1")),
			}}}
		}
		for name, estimate := range map[string]func(*corev1.Pod) Amounts{
			"BySpec.Estimate": e.Estimate, "BySpec.PendingUsage": pendingUsage(e),
			"ByRequests.Estimate": ByRequests{}.Estimate, "ByRequests.PendingUsage": pendingUsage(ByRequests{}),
		} {
			small, large := estimate(podOf(limit)), estimate(podOf(larger))
			for r := range load.ResourceCount {
				if !(small[r] >= 0) || math.IsInf(small[r], 0) {
					t.Fatalf("%s: %s of a pod with request %s and limit %s is %v", name, r, &request, &limit, small[r])
				}
				if large[r] < small[r] {
					t.Fatalf("%s: %s is %v with limit %s, and only %v with the larger limit %s", name, r, small[r], &limit, large[r], &larger)
				}
			}
		}
	})
}

func pendingUsage(e Estimator) func(*corev1.Pod) Amounts {
	return func(pod *corev1.Pod) Amounts {
		usage, _ := e.PendingUsage(pod)
		return usage
	}
}

func TestWithoutInfeasibleResize(t *testing.T) {
	list := func(cpu string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
	e := BySpec{Multiplier: 1.5, DefaultCPUMillis: 1000, MaxRequestRatio: 10}
	actual := corev1.ResourceRequirements{Requests: list("100m"), Limits: list("300m")}
	for _, tc := range []struct {
		name   string
		reason string
		status corev1.ContainerStatus
		want   float64
	}{
		{"a deferred resize counts", corev1.PodReasonDeferred, corev1.ContainerStatus{Resources: &actual}, 16000},
		{"an infeasible one does not", corev1.PodReasonInfeasible, corev1.ContainerStatus{Resources: &actual}, 300},
		{"without a limit in the status, 1.5 times the allocated request counts", corev1.PodReasonInfeasible, corev1.ContainerStatus{AllocatedResources: list("100m")}, 150},
	} {
		tc.status.Name = "a"
		pod := statuses([]corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{Requests: list("16"), Limits: list("16")}}}, tc.status)
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: tc.reason}}
		before := pod.DeepCopy()
		if got, _ := e.PendingUsage(&pod); got[load.CPU] != tc.want {
			t.Errorf("%s: %v milliCPU, want %v", tc.name, got[load.CPU], tc.want)
		}
		if !reflect.DeepEqual(before, &pod) {
			t.Errorf("%s: the pod is changed", tc.name)
		}
	}
}

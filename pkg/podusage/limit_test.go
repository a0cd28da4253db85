package podusage

import (
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helper "k8s.io/component-helpers/resource"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// amountsList lists cpu and memory unless they are empty.
func amountsList(cpu, memory string) corev1.ResourceList {
	list := corev1.ResourceList{}
	if cpu != "" {
		list[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		list[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return list
}

func TestRequest(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	requesting := func(cpu, memory string) corev1.Container {
		return corev1.Container{Resources: corev1.ResourceRequirements{Requests: amountsList(cpu, memory)}}
	}
	sidecar := requesting("500m", "1Mi")
	sidecar.RestartPolicy = &always
	for _, tc := range []struct {
		name        string
		spec        corev1.PodSpec
		cpu, memory float64
	}{
		{"the sum of two containers", corev1.PodSpec{Containers: []corev1.Container{requesting("1", "1Mi"), requesting("250m", "")}}, 1250, 1 << 20},
		{"native sidecars count", corev1.PodSpec{Containers: []corev1.Container{requesting("1", "1Mi")}, InitContainers: []corev1.Container{sidecar}}, 1500, 2 << 20},
		{"a larger init container, beside the sidecars before it", corev1.PodSpec{
			Containers: []corev1.Container{requesting("1", "1Mi")}, InitContainers: []corev1.Container{sidecar, requesting("3", "")},
		}, 3500, 2 << 20},
		{"the request for the pod as a whole replaces the sum", corev1.PodSpec{
			Containers: []corev1.Container{requesting("1", "1Mi")}, Resources: &corev1.ResourceRequirements{Requests: amountsList("2", "")},
		}, 2000, 1 << 20},
		{"overhead is added", corev1.PodSpec{Containers: []corev1.Container{requesting("1", "1Mi")}, Overhead: amountsList("100m", "1Mi")}, 1100, 2 << 20},
		{"nothing", corev1.PodSpec{Containers: []corev1.Container{requesting("", "")}}, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: tc.spec}
			if cpu, memory := Request(pod, load.CPU), Request(pod, load.Memory); cpu != tc.cpu || memory != tc.memory {
				t.Errorf("requests %v and %v, want %v and %v", cpu, memory, tc.cpu, tc.memory)
			}
			if got, want := (Amounts{Request(pod, load.CPU), Request(pod, load.Memory)}), (ByRequests{}).Estimate(pod); got != want {
				t.Errorf("%v, but ByRequests estimates %v", got, want)
			}
			if allocs := testing.AllocsPerRun(10, func() { Request(pod, load.Memory) }); allocs != 0 {
				t.Errorf("%v allocations, want 0", allocs)
			}
		})
	}
}

func TestLimit(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	limited := func(cpu, memory string) corev1.Container {
		return corev1.Container{Resources: corev1.ResourceRequirements{Limits: amountsList(cpu, memory)}}
	}
	sidecar := limited("500m", "1Mi")
	sidecar.RestartPolicy = &always
	unlimitedSidecar := limited("", "")
	unlimitedSidecar.RestartPolicy = &always
	none := math.Inf(1)
	for _, tc := range []struct {
		name        string
		spec        corev1.PodSpec
		cpu, memory float64
	}{
		{"one container", corev1.PodSpec{Containers: []corev1.Container{limited("1", "1Mi")}}, 1000, 1 << 20},
		{"the sum of two", corev1.PodSpec{Containers: []corev1.Container{limited("1", "1Mi"), limited("250m", "2Mi")}}, 1250, 3 << 20},
		{"none for one container alone", corev1.PodSpec{Containers: []corev1.Container{limited("1", "1Mi"), limited("", "2Mi")}}, none, 3 << 20},
		{"a limit of zero is none", corev1.PodSpec{Containers: []corev1.Container{limited("0", "0")}}, none, none},
		{"native sidecars count", corev1.PodSpec{Containers: []corev1.Container{limited("1", "1Mi")}, InitContainers: []corev1.Container{sidecar}}, 1500, 2 << 20},
		{"and so do theirs that are missing", corev1.PodSpec{Containers: []corev1.Container{limited("1", "1Mi")}, InitContainers: []corev1.Container{unlimitedSidecar}}, none, none},
		{"ordinary init containers do not", corev1.PodSpec{Containers: []corev1.Container{limited("1", "1Mi")}, InitContainers: []corev1.Container{limited("", "")}}, 1000, 1 << 20},
		{"the pod's own limit bounds the sum", corev1.PodSpec{
			Containers: []corev1.Container{limited("", "1Mi")}, Resources: &corev1.ResourceRequirements{Limits: amountsList("2", "2Mi")},
		}, 2000, 1 << 20},
		{"overhead is added", corev1.PodSpec{Containers: []corev1.Container{limited("1", "1Mi")}, Overhead: amountsList("100m", "1Mi")}, 1100, 2 << 20},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: tc.spec}
			if cpu, memory := Limit(pod, load.CPU), Limit(pod, load.Memory); cpu != tc.cpu || memory != tc.memory {
				t.Errorf("limits %v and %v, want %v and %v", cpu, memory, tc.cpu, tc.memory)
			}
			if allocs := testing.AllocsPerRun(10, func() { Limit(pod, load.Memory) }); allocs != 0 {
				t.Errorf("%v allocations, want 0", allocs)
			}
		})
	}
}

func TestSpecLimit(t *testing.T) {
	for name, tc := range map[string]struct {
		spec corev1.PodSpec
		want float64
	}{
		"the sum of two containers":                             {corev1.PodSpec{Containers: containers(container(limits("cpu", "1")), container(limits("cpu", "250m")))}, 1250},
		"a container without a limit counts nothing":            {corev1.PodSpec{Containers: containers(container(limits("cpu", "1")), container(requests("cpu", "2")))}, 1000},
		"native sidecars count":                                 {corev1.PodSpec{Containers: containers(container(limits("cpu", "1"))), InitContainers: containers(sidecar(limits("cpu", "500m")))}, 1500},
		"a larger init container, beside the sidecar before it": {corev1.PodSpec{Containers: containers(container(limits("cpu", "1"))), InitContainers: containers(sidecar(limits("cpu", "500m")), container(limits("cpu", "3")))}, 3500},
		"the limit of the pod as a whole replaces the sum":      {corev1.PodSpec{Resources: podLevel(limits("cpu", "2")), Containers: containers(container(limits("cpu", "8")))}, 2000},
		"overhead is added":                                     {corev1.PodSpec{Containers: containers(container(limits("cpu", "1"))), Overhead: list("cpu", "100m")}, 1100},
		"nothing":                                               {corev1.PodSpec{Containers: containers(container(requests("cpu", "1")))}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: tc.spec}
			got := SpecLimit(pod, load.CPU)
			if got != tc.want {
				t.Errorf("limit %v, want %v", got, tc.want)
			}
			if summed := helper.PodLimits(pod, helper.PodResourcesOptions{}); got != Millis(*summed.Cpu()) {
				t.Errorf("limit %v, but PodLimits of component-helpers has %v", got, summed.Cpu())
			}
			if allocs := testing.AllocsPerRun(10, func() { SpecLimit(pod, load.CPU) }); allocs != 0 {
				t.Errorf("%v allocations, want 0", allocs)
			}
		})
	}
}

func TestBySpec_FromSpecMemory(t *testing.T) {
	container := func(request, limit string) corev1.Container {
		return corev1.Container{
			Resources: corev1.ResourceRequirements{Requests: amountsList("1", request), Limits: amountsList("", limit)},
		}
	}
	e := BySpec{Multiplier: 1.5}
	for _, tc := range []struct {
		name                string
		spec                corev1.PodSpec
		ratio, usage, unset float64
	}{
		{"the limit", corev1.PodSpec{Containers: []corev1.Container{container("1Ki", "4Ki")}}, math.Inf(1), 4096, 0},
		{"up to twice the request", corev1.PodSpec{Containers: []corev1.Container{container("1Ki", "4Ki")}}, 2, 2048, 0},
		{"1.5 times the request", corev1.PodSpec{Containers: []corev1.Container{container("1Ki", "")}}, 2, 1536, 0},
		{"memory is unset", corev1.PodSpec{Containers: []corev1.Container{container("", ""), container("", "")}}, 2, 0, 2},
		{"pod-level resources replace the sum", corev1.PodSpec{
			Containers: []corev1.Container{container("1Ki", "4Ki"), container("", "")},
			Resources:  &corev1.ResourceRequirements{Limits: amountsList("", "8Ki")},
		}, math.Inf(1), 8192, 0},
	} {
		pod := &corev1.Pod{Spec: tc.spec}
		if usage, unset := e.FromSpec(pod, pod, load.Memory, tc.ratio); usage != tc.usage || unset != tc.unset {
			t.Errorf("%s: %v bytes and %v unset containers, want %v and %v", tc.name, usage, unset, tc.usage, tc.unset)
		}
	}
}

func TestByRequests_Default(t *testing.T) {
	e := ByRequests{Default: Amounts{load.CPU: 300, load.Memory: 700}}
	pod := &corev1.Pod{
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: amountsList("100m", "")}}}},
	}
	want := Amounts{load.CPU: 100, load.Memory: 700}
	if got := e.Estimate(pod); got != want {
		t.Errorf("Estimate %v, want %v", got, want)
	}
	got, byDefault := e.PendingUsage(pod)
	if got != want || byDefault != (Amounts{load.Memory: 700}) {
		t.Errorf("PendingUsage %v, %v by default; want %v, the memory by default", got, byDefault, want)
	}
}

func TestMaxForeignDefault_IsThatOfTheScheduler(t *testing.T) {
	got := [2]float64{MaxForeignDefault(load.CPU), MaxForeignDefault(load.Memory)}
	if want := [2]float64{float64(schedutil.DefaultMilliCPURequest), float64(schedutil.DefaultMemoryRequest)}; got != want {
		t.Errorf("%v, want %v, as the stock scheduler counts for a pod without requests", got, want)
	}
}

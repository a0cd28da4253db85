package podusage

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helper "k8s.io/component-helpers/resource"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
	"pgregory.net/rapid"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor/podrequests"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/minortest"
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
			check.Equal(t, "allocations", 0, testing.AllocsPerRun(10, func() { Request(pod, load.Memory) }))
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
			check.Equal(t, "allocations", 0, testing.AllocsPerRun(10, func() { Limit(pod, load.Memory) }))
		})
	}
}

func TestSpecLimit(t *testing.T) {
	for name, tc := range map[string]struct {
		spec corev1.PodSpec
		want float64
	}{
		"the sum of two containers":                             {corev1.PodSpec{Containers: containers(container(limits("cpu", "1")), container(limits("cpu", "250m")))}, 1250},
		"a partial sum is no limit":                             {corev1.PodSpec{Containers: containers(container(limits("cpu", "1")), container(requests("cpu", "2")))}, 0},
		"nor is that of all but an init container":              {corev1.PodSpec{Containers: containers(container(limits("cpu", "1"))), InitContainers: containers(container(requests("cpu", "2")))}, 0},
		"a limit of zero is none":                               {corev1.PodSpec{Containers: containers(container(limits("cpu", "1")), container(limits("cpu", "0"))), Overhead: list("cpu", "100m")}, 0},
		"the pod as a whole has one, and a container none":      {corev1.PodSpec{Resources: podLevel(limits("cpu", "2")), Containers: containers(container(requests("cpu", "1")))}, 2000},
		"native sidecars count":                                 {corev1.PodSpec{Containers: containers(container(limits("cpu", "1"))), InitContainers: containers(sidecar(limits("cpu", "500m")))}, 1500},
		"a larger init container, beside the sidecar before it": {corev1.PodSpec{Containers: containers(container(limits("cpu", "1"))), InitContainers: containers(sidecar(limits("cpu", "500m")), container(limits("cpu", "3")))}, 3500},
		"the limit of the pod as a whole replaces the sum":      {corev1.PodSpec{Resources: podLevel(limits("cpu", "2")), Containers: containers(container(limits("cpu", "8")))}, 2000},
		"overhead is added":                                     {corev1.PodSpec{Containers: containers(container(limits("cpu", "1"))), Overhead: list("cpu", "100m")}, 1100},
		"nothing":                                               {corev1.PodSpec{Containers: containers(container(requests("cpu", "1")))}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: tc.spec}
			got := SpecLimit(pod, load.CPU)
			check.Equal(t, "limit", tc.want, got)
			// Before Kubernetes 1.38, PodLimits returns partial sums.
			if summed := helper.PodLimits(pod, helper.PodResourcesOptions{}); tc.want > 0 && got != Millis(*summed.Cpu()) {
				t.Errorf("limit %v, but PodLimits of component-helpers has %v", got, summed.Cpu())
			}
			check.Equal(t, "allocations", 0, testing.AllocsPerRun(10, func() { SpecLimit(pod, load.CPU) }))
		})
	}
}

func TestBySpec_FromSpecMemory(t *testing.T) {
	container := func(request, limit string) corev1.Container {
		return corev1.Container{Resources: corev1.ResourceRequirements{Requests: amountsList("1", request), Limits: amountsList("", limit)}}
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
		if usage, unset := e.FromSpec(pod, pod, load.Memory, tc.ratio, nil); usage != tc.usage || unset != tc.unset {
			t.Errorf("%s: %v bytes and %v unset containers, want %v and %v", tc.name, usage, unset, tc.usage, tc.unset)
		}
	}
}

func TestByRequests_Default(t *testing.T) {
	e := ByRequests{Default: Amounts{load.CPU: 300, load.Memory: 700}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: amountsList("100m", "")}}}}}
	want := Amounts{load.CPU: 100, load.Memory: 700}
	check.Equal(t, "Estimate", want, e.Estimate(pod))
	got, byDefault := e.PendingUsage(pod)
	if got != want || byDefault != (Amounts{load.Memory: 700}) {
		t.Errorf("PendingUsage %v, %v by default; want %v, the memory by default", got, byDefault, want)
	}
}

func TestMaxForeignDefault_IsThatOfTheScheduler(t *testing.T) {
	got := [2]float64{MaxForeignDefault(load.CPU), MaxForeignDefault(load.Memory)}
	check.Equal(t, "as the stock scheduler counts for a pod without requests",
		[2]float64{float64(schedutil.DefaultMilliCPURequest), float64(schedutil.DefaultMemoryRequest)}, got)
}

// drawRequests draws requests of CPU and memory: few values, so that a status often equals its spec.
func drawRequests(t *rapid.T, label string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if amount := rapid.Int64Range(-1, 3).Draw(t, label+" "+name.String()); amount >= 0 {
			list[name] = *resource.NewQuantity(amount, resource.DecimalSI)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list
}

func drawStatus(t *rapid.T, label, container string, spec corev1.ResourceList) corev1.ContainerStatus {
	status := corev1.ContainerStatus{Name: container}
	lists := map[string]*corev1.ResourceList{"allocated": &status.AllocatedResources}
	if rapid.Bool().Draw(t, label+" has resources") {
		status.Resources = &corev1.ResourceRequirements{}
		lists["running"] = &status.Resources.Requests
	}
	for name, list := range lists {
		if rapid.IntRange(0, 3).Draw(t, label+" resized") > 0 {
			*list = spec
		} else {
			*list = drawRequests(t, label+" "+name)
		}
	}
	return status
}

func drawResizedPod(t *rapid.T) *corev1.Pod {
	pod := &corev1.Pod{}
	always := corev1.ContainerRestartPolicyAlways
	for i := range rapid.IntRange(0, 4).Draw(t, "containers") {
		label := "container " + strconv.Itoa(i)
		c := corev1.Container{Name: strconv.Itoa(i), Resources: corev1.ResourceRequirements{Requests: drawRequests(t, label)}}
		containers, statuses := &pod.Spec.Containers, &pod.Status.ContainerStatuses
		switch rapid.IntRange(0, 3).Draw(t, label+" kind") {
		case 1:
			c.RestartPolicy = &always
			fallthrough
		case 2:
			containers, statuses = &pod.Spec.InitContainers, &pod.Status.InitContainerStatuses
		}
		*containers = append(*containers, c)
		if rapid.Bool().Draw(t, label+" has a status") {
			*statuses = append(*statuses, drawStatus(t, label, c.Name, c.Resources.Requests))
		}
	}
	if rapid.Bool().Draw(t, "pod-level") {
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: drawRequests(t, "pod-level")}
	}
	pod.Spec.Overhead = drawRequests(t, "overhead")
	if rapid.IntRange(0, 3).Draw(t, "pod-level status") == 0 {
		minortest.SetPodStatus(pod, drawRequests(t, "allocated of the pod"), drawRequests(t, "running of the pod"))
	}
	if rapid.IntRange(0, 7).Draw(t, "infeasible") == 0 {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible}}
	}
	return pod
}

// The scheduler's own sum is what counts, whatever the status holds.
func TestByRequests_CountsAsTheScheduler(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod := drawResizedPod(t)
		if got, want := (ByRequests{}).Estimate(pod), AmountsOf(podrequests.Of(pod)); got != want {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}

// Kubelets of clusters that resize pods in place report a container's resources twice.
func TestByRequests_DoesNotAllocate(t *testing.T) {
	resources := requests("cpu", "100m", "memory", "64Mi")
	pod := &corev1.Pod{
		Spec:   corev1.PodSpec{Containers: containers(corev1.Container{Name: "c", Resources: resources})},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "c", AllocatedResources: resources.Requests, Resources: &resources}}},
	}
	if allocations := testing.AllocsPerRun(100, func() { ByRequests{}.Estimate(pod) }); allocations > 0 {
		t.Errorf("%v allocations, want none", allocations)
	}
}

// basesOf returns parts as text.
func basesOf(parts []Part) (texts []string) {
	for _, p := range parts {
		texts = append(texts, fmt.Sprintf("%g %s", p.Amount, p.Basis))
	}
	return texts
}

func TestExplain(t *testing.T) {
	cpu := func(amount string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		Containers: []corev1.Container{
			{Name: "limited", Resources: corev1.ResourceRequirements{Requests: cpu("100m"), Limits: cpu("500m")}},
			{Name: "requesting", Resources: corev1.ResourceRequirements{Requests: cpu("200m")}},
			{Name: "unset"},
		},
		Overhead: cpu("50m"),
	}}
	whole := pod.DeepCopy()
	whole.Spec.Resources = &corev1.ResourceRequirements{Requests: cpu("1")}
	for _, tt := range []struct {
		name      string
		estimator Estimator
		pod       *corev1.Pod
		want      []string
	}{
		{"by spec", BySpec{Multiplier: 1.5, DefaultCPUMillis: 1000}, pod, []string{
			"500 limit of container limited", "300 1.5 × request of container requesting",
			"1000 default: container unset has neither limit nor request", "50 overhead of the pod",
		}},
		{"a multiplier of 1 is not mentioned", BySpec{Multiplier: 1}, &corev1.Pod{Spec: corev1.PodSpec{Containers: pod.Spec.Containers[1:2]}}, []string{
			"200 request of container requesting",
		}},
		{"pod-level resources", BySpec{Multiplier: 1.5, DefaultCPUMillis: 1000}, whole, []string{"1500 1.5 × request of the pod", "50 overhead of the pod"}},
		{"by requests", ByRequests{}, pod, []string{"350 request of the pod"}},
		{"no request", ByRequests{Default: Amounts{load.CPU: 500}}, &corev1.Pod{}, []string{"500 default: the pod has no cpu request"}},
	} {
		check.Equal(t, tt.name, tt.want, basesOf(tt.estimator.Explain(tt.pod)[load.CPU].Parts))
	}
}

// Whatever a pod states, the parts of its estimate add up to the estimate.
func TestExplain_AddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := func(label string) corev1.ResourceList {
			if !rapid.Bool().Draw(t, label) {
				return nil
			}
			amount := resource.NewMilliQuantity(rapid.Int64Range(0, 1e6).Draw(t, label+" cpu"), resource.DecimalSI)
			return corev1.ResourceList{corev1.ResourceCPU: *amount, corev1.ResourceMemory: *amount}
		}
		pod := &corev1.Pod{Spec: corev1.PodSpec{Overhead: list("overhead")}}
		for i := range rapid.IntRange(0, 4).Draw(t, "containers") {
			c := corev1.Container{Name: fmt.Sprint(i), Resources: corev1.ResourceRequirements{Requests: list("request"), Limits: list("limit")}}
			if rapid.Bool().Draw(t, "init") {
				if rapid.Bool().Draw(t, "sidecar") {
					c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
				}
				pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
				continue
			}
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
		if rapid.Bool().Draw(t, "whole") {
			pod.Spec.Resources = &corev1.ResourceRequirements{Requests: list("pod request"), Limits: list("pod limit")}
		}
		for _, e := range []Estimator{BySpec{Multiplier: 1.5, DefaultCPUMillis: 1000}, ByRequests{Default: Amounts{load.CPU: 7}}} {
			estimate, x := e.Estimate(pod), e.Explain(pod)
			for r := range load.ResourceCount {
				sum := 0.0
				for _, p := range x[r].Parts {
					sum += p.Amount
				}
				if math.Abs(sum-estimate[r]) > 1e-6 {
					t.Fatalf("%T: %s is estimated at %g, and explained by %v", e, r, estimate[r], basesOf(x[r].Parts))
				}
				if slices.ContainsFunc(x[r].Parts, func(p Part) bool { return p.Basis == "" }) {
					t.Fatalf("%T: %v", e, basesOf(x[r].Parts))
				}
			}
		}
	})
}

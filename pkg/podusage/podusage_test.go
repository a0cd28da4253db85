package podusage

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helper "k8s.io/component-helpers/resource"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// list returns a ResourceList of name and quantity pairs.
func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func requests(pairs ...string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: list(pairs...)}
}

func limits(pairs ...string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Limits: list(pairs...)}
}

func both(request, limit string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: list("cpu", request), Limits: list("cpu", limit)}
}

func container(r corev1.ResourceRequirements) corev1.Container { return corev1.Container{Resources: r} }

func sidecar(r corev1.ResourceRequirements) corev1.Container {
	always := corev1.ContainerRestartPolicyAlways
	return corev1.Container{Resources: r, RestartPolicy: &always}
}

func containers(c ...corev1.Container) []corev1.Container { return c }

func podLevel(r corev1.ResourceRequirements) *corev1.ResourceRequirements { return &r }

func TestBySpec(t *testing.T) {
	onFailure := corev1.ContainerRestartPolicyOnFailure
	defaults := BySpec{Multiplier: 1.5, DefaultCPUMillis: 1000}
	tests := []struct {
		name string
		// estimator is that of defaults if it is zero.
		estimator BySpec
		spec      corev1.PodSpec
		want      float64
	}{
		{name: "a limit is what is expected, whatever the request", spec: corev1.PodSpec{Containers: containers(container(both("500m", "2")))}, want: 2000},
		// 500 · 1.5
		{name: "a request without a limit is multiplied", spec: corev1.PodSpec{Containers: containers(container(requests("cpu", "500m")))}, want: 750},
		{
			name: "a multiplied request is not rounded", estimator: BySpec{Multiplier: 1.25, DefaultCPUMillis: 1000},
			spec: corev1.PodSpec{Containers: containers(container(requests("cpu", "1m")))}, want: 1.25,
		},
		{
			name: "a multiplier of zero expects nothing of requests", estimator: BySpec{Multiplier: 0, DefaultCPUMillis: 1000},
			spec: corev1.PodSpec{Containers: containers(container(requests("cpu", "500m")))}, want: 0,
		},
		{
			name: "a container without limit and request uses the default", estimator: BySpec{Multiplier: 1.5, DefaultCPUMillis: 300},
			spec: corev1.PodSpec{Containers: containers(container(corev1.ResourceRequirements{}))}, want: 300,
		},
		{
			name: "limits and requests of other resources do not count for cpu",
			spec: corev1.PodSpec{Containers: containers(container(corev1.ResourceRequirements{Requests: list("memory", "1Gi"), Limits: list("memory", "2Gi")}))}, want: 1000,
		},
		{
			name: "each container counts by its own resources",
			spec: corev1.PodSpec{Containers: containers(container(limits("cpu", "200m")), container(requests("cpu", "100m")), container(corev1.ResourceRequirements{}))},
			want: 1350, // 200 + 100 · 1.5 + 1000
		},
		{
			name: "native sidecars count as containers",
			spec: corev1.PodSpec{
				Containers: containers(container(limits("cpu", "1"))),
				InitContainers: containers(sidecar(limits("cpu", "50m")), sidecar(requests("cpu", "100m")),
					sidecar(corev1.ResourceRequirements{})),
			},
			want: 2200, // 1000 + 50 + 100 · 1.5 + 1000
		},
		{
			name: "ordinary init containers have ended and do not count",
			spec: corev1.PodSpec{
				Containers: containers(container(limits("cpu", "1"))),
				InitContainers: containers(container(limits("cpu", "8")), container(corev1.ResourceRequirements{}),
					corev1.Container{Resources: limits("cpu", "4"), RestartPolicy: &onFailure}),
			},
			want: 1000,
		},
		// 500 · 1.5 + 250
		{name: "overhead is added, and not multiplied", spec: corev1.PodSpec{Containers: containers(container(requests("cpu", "500m"))), Overhead: list("cpu", "250m")}, want: 1000},
		{
			name: "a limit of the pod replaces its containers', sidecars too",
			spec: corev1.PodSpec{
				Resources:      podLevel(both("1", "3")),
				Containers:     containers(container(limits("cpu", "8")), container(corev1.ResourceRequirements{})),
				InitContainers: containers(sidecar(limits("cpu", "1"))),
			},
			want: 3000,
		},
		{
			name: "a request of the pod is multiplied and replaces its containers'",
			spec: corev1.PodSpec{Resources: podLevel(requests("cpu", "2")), Containers: containers(container(limits("cpu", "8")))},
			want: 3000, // 2000 · 1.5
		},
		{
			name: "overhead comes on top of what the pod states",
			spec: corev1.PodSpec{
				Resources: podLevel(limits("cpu", "2")), Containers: containers(container(corev1.ResourceRequirements{})),
				Overhead: list("cpu", "100m", "memory", "64Mi"),
			},
			want: 2100,
		},
		{
			name: "pod-level memory leaves cpu to the containers",
			spec: corev1.PodSpec{Resources: podLevel(limits("memory", "1Gi")), Containers: containers(container(limits("cpu", "700m")))}, want: 700,
		},
		{
			// The API server completes resources{limits{memory}} by requests{cpu: 500m + 100m}.
			name: "a pod-level request that the API server derived does not hide the containers' limits",
			spec: corev1.PodSpec{
				Resources:  podLevel(corev1.ResourceRequirements{Requests: list("cpu", "600m", "memory", "1Gi"), Limits: list("memory", "1Gi")}),
				Containers: containers(container(both("500m", "2"))), InitContainers: containers(sidecar(both("100m", "1"))),
			},
			want: 3000, // 2000 + 1000
		},
		{
			// requests{cpu} is what the second init container needs beside the sidecar before it: 100m + 4.
			name: "a pod-level request that the API server derived from an init container does not count either",
			spec: corev1.PodSpec{
				Resources:      podLevel(corev1.ResourceRequirements{Requests: list("cpu", "4100m"), Limits: list("memory", "1Gi")}),
				Containers:     containers(container(both("500m", "2"))),
				InitContainers: containers(sidecar(both("100m", "1")), container(requests("cpu", "4"))),
			},
			want: 3000, // 2000 + 1000
		},
		{
			name: "a pod-level request beside a memory limit wins where it is not the containers' sum",
			spec: corev1.PodSpec{
				Resources:  podLevel(corev1.ResourceRequirements{Requests: list("cpu", "1"), Limits: list("memory", "1Gi")}),
				Containers: containers(container(both("500m", "2"))),
			},
			want: 1500, // 1000 · 1.5
		},
		{name: "a request of zero says that nothing is needed", spec: corev1.PodSpec{Containers: containers(container(requests("cpu", "0")))}, want: 0},
		{name: "a limit of zero says that nothing is needed", spec: corev1.PodSpec{Containers: containers(container(both("0", "0")))}, want: 0},
		{name: "a pod without containers is its overhead", spec: corev1.PodSpec{Overhead: list("cpu", "10m")}, want: 10},
		// 0.1m, rounded up as the scheduler does
		{name: "a fraction of a milliCPU counts as one", spec: corev1.PodSpec{Containers: containers(container(limits("cpu", "100u")))}, want: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.estimator == (BySpec{}) {
				tt.estimator = defaults
			}
			check.Equal(t, "Estimate() milliCPU", tt.want, tt.estimator.Estimate(&corev1.Pod{Spec: tt.spec})[load.CPU])
		})
	}
}

func TestByRequests(t *testing.T) {
	const mi = 1 << 20
	tests := []struct {
		name       string
		pod        corev1.Pod
		wantCPU    float64
		wantMemory float64
	}{
		{name: "what is not requested counts zero, limits or not", pod: corev1.Pod{Spec: corev1.PodSpec{Containers: containers(container(limits("cpu", "1", "memory", "1Gi")))}}},
		{
			name: "containers, sidecars and overhead add up",
			pod: corev1.Pod{Spec: corev1.PodSpec{
				Containers: containers(container(requests("cpu", "500m", "memory", "256Mi")),
					container(requests("cpu", "250m", "memory", "128Mi"))),
				InitContainers: containers(sidecar(requests("cpu", "100m", "memory", "64Mi"))),
				Overhead:       list("cpu", "50m", "memory", "32Mi"),
			}},
			wantCPU:    900,      // 500 + 250 + 100 + 50
			wantMemory: 480 * mi, // 256 + 128 + 64 + 32
		},
		{
			name: "an init container that requests more than the rest decides, resource by resource",
			pod: corev1.Pod{Spec: corev1.PodSpec{
				Containers:     containers(container(requests("cpu", "500m", "memory", "256Mi"))),
				InitContainers: containers(container(requests("cpu", "2", "memory", "128Mi"))), Overhead: list("cpu", "50m"),
			}},
			wantCPU:    2050, // max(500, 2000) + 50
			wantMemory: 256 * mi,
		},
		{
			name: "pod-level resources win, resource by resource",
			pod: corev1.Pod{Spec: corev1.PodSpec{
				Resources: podLevel(requests("cpu", "2")), Containers: containers(container(requests("cpu", "500m", "memory", "256Mi"))),
				Overhead: list("cpu", "50m"),
			}},
			wantCPU:    2050, // 2000 + 50
			wantMemory: 256 * mi,
		},
		{
			name: "while a container is being resized the larger of old and new counts",
			pod: corev1.Pod{
				Spec:   corev1.PodSpec{Containers: containers(corev1.Container{Name: "a", Resources: requests("cpu", "500m", "memory", "512Mi")})},
				Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "a", Resources: podLevel(requests("cpu", "1", "memory", "256Mi"))}}},
			},
			wantCPU:    1000,
			wantMemory: 512 * mi,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ByRequests{}.Estimate(&tt.pod)
			check.Equal(t, "Estimate()", Amounts{load.CPU: tt.wantCPU, load.Memory: tt.wantMemory}, got)
		})
	}
}

func everything() *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{
		Containers: containers(container(both("500m", "2")), container(requests("cpu", "1500m")),
			container(corev1.ResourceRequirements{})),
		InitContainers: containers(sidecar(requests("cpu", "100m")), container(limits("cpu", "8"))),
		Resources:      podLevel(corev1.ResourceRequirements{Requests: list("cpu", "2100m"), Limits: list("memory", "1Gi")}),
		Overhead:       list("cpu", "50m"),
	}}
}

func TestContainersRequestMillis(t *testing.T) {
	specs := map[string]corev1.PodSpec{
		"containers": {Containers: containers(container(requests("cpu", "500m")), container(requests("cpu", "1")))},
		"a large init container before and after a sidecar": {
			Containers: containers(container(requests("cpu", "500m"))),
			InitContainers: containers(container(requests("cpu", "2")), sidecar(requests("cpu", "300m")),
				container(requests("cpu", "1900m"))),
		},
		"sidecars alone": {InitContainers: containers(sidecar(requests("cpu", "300m")), sidecar(requests("cpu", "1")))},
		"nothing":        {Containers: containers(container(corev1.ResourceRequirements{}))},
	}
	for name, spec := range specs {
		t.Run(name, func(t *testing.T) {
			derived := helper.AggregateContainerRequests(&corev1.Pod{Spec: spec}, helper.PodResourcesOptions{})
			if got, want := containersSum(&spec, load.CPU, requestsOf), float64(derived.Cpu().MilliValue()); got != want {
				t.Errorf("containersSum() = %v, AggregateContainerRequests has %v", got, want)
			}
		})
	}
}

func TestBySpec_DoesNotAllocate(t *testing.T) {
	pod, estimator := everything(), BySpec{Multiplier: 1.5, DefaultCPUMillis: 1000}
	check.Equal(t, "Estimate allocates times", 0, testing.AllocsPerRun(100, func() { estimator.Estimate(pod) }))
}

func BenchmarkBySpec(b *testing.B) {
	pod, estimator := everything(), BySpec{Multiplier: 1.5, DefaultCPUMillis: 1000}
	b.ReportAllocs()
	for b.Loop() {
		estimator.Estimate(pod)
	}
}

func BenchmarkByRequests(b *testing.B) {
	pod := everything()
	b.ReportAllocs()
	for b.Loop() {
		ByRequests{}.Estimate(pod)
	}
}

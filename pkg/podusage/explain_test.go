package podusage

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

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
		{"pod-level resources", BySpec{Multiplier: 1.5, DefaultCPUMillis: 1000}, whole, []string{
			"1500 1.5 × request of the pod", "50 overhead of the pod",
		}},
		{"by requests", ByRequests{}, pod, []string{"350 request of the pod"}},
		{"no request", ByRequests{Default: Amounts{load.CPU: 500}}, &corev1.Pod{}, []string{"500 default: the pod has no cpu request"}},
	} {
		if diff := cmp.Diff(tt.want, basesOf(tt.estimator.Explain(tt.pod)[load.CPU].Parts)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
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
			c := corev1.Container{
				Name: fmt.Sprint(i), Resources: corev1.ResourceRequirements{Requests: list("request"), Limits: list("limit")},
			}
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

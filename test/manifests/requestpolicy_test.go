package manifests_test

import (
	"fmt"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	clientscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

const requestPolicy = "requestPolicy: {enabled: true}"

// admits returns a function that evaluates the chart's policy, as the API server does.
func admits(t *testing.T) func(pod *corev1.Pod) (bool, error) {
	t.Helper()
	spec := one[admissionregistrationv1.ValidatingAdmissionPolicy](t, render(t, requestPolicy), "ValidatingAdmissionPolicy").Spec
	var expressions []string
	for _, v := range spec.Validations {
		expressions = append(expressions, v.Expression)
	}
	return evaluator(t, spec.Variables, expressions)
}

// evaluator returns a function that reports whether all expressions are true for a pod, as the API server does.
func evaluator(
	t *testing.T, variables []admissionregistrationv1.Variable, expressions []string,
) func(pod *corev1.Pod) (bool, error) {
	t.Helper()
	compiler := check.Value(plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())))(t)
	declared := plugincel.OptionalVariableDeclarations{HasAuthorizer: true}
	for _, v := range variables {
		result := compiler.CompileAndStoreVariable(&validating.Variable{Name: v.Name, Expression: v.Expression}, declared, environment.StoredExpressions)
		if result.Error != nil {
			t.Fatal(result.Error)
		}
	}
	var conditions []plugincel.ExpressionAccessor
	for _, expression := range expressions {
		conditions = append(conditions, &validating.ValidationCondition{Expression: expression})
	}
	condition := compiler.CompileCondition(conditions, declared, environment.StoredExpressions)
	for _, err := range condition.CompilationErrors() {
		t.Fatal(err)
	}
	gvk := corev1.SchemeGroupVersion.WithKind("Pod")
	return func(pod *corev1.Pod) (bool, error) {
		attributes := admission.NewAttributesRecord(pod, nil, gvk, "ns", "p", corev1.SchemeGroupVersion.WithResource("pods"), "",
			admission.Create, nil, false, nil)
		versioned := check.Value(admission.NewVersionedAttributes(attributes, gvk, admission.NewObjectInterfacesFromScheme(clientscheme.Scheme)))(t)
		results, _, err := condition.ForInput(compiler.CreateContext(t.Context()), versioned, nil, plugincel.OptionalVariableBindings{}, nil,
			celconfig.RuntimeCELCostBudget)
		if err != nil {
			return false, err
		}
		for _, result := range results {
			if result.Error != nil {
				return false, result.Error
			}
			if admitted, ok := result.EvalResult.Value().(bool); !ok || !admitted {
				return false, nil
			}
		}
		return true, nil
	}
}

// The bounds are 1M cores of cpu, and 1P of each other resource.
func TestRequestPolicy(t *testing.T) {
	admit := admits(t)
	list := func(name corev1.ResourceName, quantity string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{name: resource.MustParse(quantity)}}
	}
	for _, tt := range []struct {
		name     corev1.ResourceName
		quantity string
		want     bool
	}{
		{corev1.ResourceCPU, "100m", true},
		{corev1.ResourceCPU, "1M", true},
		{corev1.ResourceCPU, "1000000001m", false},
		{corev1.ResourceMemory, "1Gi", true},
		{corev1.ResourceMemory, "1P", true},
		{corev1.ResourceMemory, "1000000000000001", false},
		{corev1.ResourceMemory, "5Ei", false},
		{corev1.ResourceMemory, "1e30", false},
		{corev1.ResourceEphemeralStorage, "1P", true},
		{corev1.ResourceEphemeralStorage, "1Pi", false},
		{"example.com/gpu", "8", true},
		{"example.com/gpu", "2P", false},
	} {
		places := map[string]func(*corev1.PodSpec){
			"a container": func(s *corev1.PodSpec) {
				s.Containers = append(s.Containers, corev1.Container{Resources: list(tt.name, tt.quantity)})
			},
			"an init container": func(s *corev1.PodSpec) {
				s.InitContainers = []corev1.Container{{}, {Resources: list(tt.name, tt.quantity)}}
			},
			"the whole pod": func(s *corev1.PodSpec) { r := list(tt.name, tt.quantity); s.Resources = &r },
			"overhead":      func(s *corev1.PodSpec) { s.Overhead = list(tt.name, tt.quantity).Requests },
		}
		for place, set := range places {
			t.Run(fmt.Sprint(tt.name, " ", tt.quantity, " of ", place), func(t *testing.T) {
				pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c"}}}}
				set(&pod.Spec)
				check.Equal(t, "admitted", tt.want, check.Value(admit(pod))(t))
			})
		}
	}
}

// With 18 containers, the pod and its overhead, there are 20 lists.
func TestRequestPolicy_ManyContainers(t *testing.T) {
	admit := admits(t)
	for _, tt := range []struct {
		containers int
		memory     string
		want       bool
	}{{18, "1P", true}, {19, "1P", false}, {19, "10T", true}, {19, "10000000000001", false}} {
		pod := &corev1.Pod{}
		for range tt.containers {
			requests := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(tt.memory)}
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Resources: corev1.ResourceRequirements{Requests: requests}})
		}
		check.Equal(t, fmt.Sprintf("%d containers of %s: admitted", tt.containers, tt.memory), tt.want, check.Value(admit(pod))(t))
	}
}

// A pod of 500 containers is still evaluated: the API server rejects what costs more than its budget.
func TestRequestPolicy_Cost(t *testing.T) {
	pod := &corev1.Pod{}
	for range 500 {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("100Mi"),
			corev1.ResourceEphemeralStorage: resource.MustParse("1Gi"), "example.com/gpu": resource.MustParse("1"),
		}}})
	}
	if got, err := admits(t)(pod); err != nil || !got {
		t.Errorf("admitted: %v, %v, want true", got, err)
	}
}

// Excluded pods keep their scheduler: a condition of the admission policy is false for them.
func TestAdmissionPolicy_Exclude(t *testing.T) {
	policy := one[admissionregistrationv1.MutatingAdmissionPolicy](t, render(t, `admissionPolicy:
  enabled: true
  exclude:
    resources: [nvidia.com/gpu, example.com/fpga]
    ownerKinds: [RayCluster, Cluster]
    expressions: ['"queue" in object.metadata.?labels.orValue({})', 'object.spec.?hostNetwork.orValue(false)']`), "MutatingAdmissionPolicy")
	var expressions []string
	for _, c := range policy.Spec.MatchConditions {
		expressions = append(expressions, c.Expression)
	}
	matches := evaluator(t, nil, expressions)
	asks := func(name corev1.ResourceName) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Limits: corev1.ResourceList{name: resource.MustParse("1")}}
	}
	for name, tt := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"a plain pod":           {func(*corev1.Pod) {}, true},
		"of a scheduler":        {func(p *corev1.Pod) { p.Spec.SchedulerName = "other" }, false},
		"a GPU":                 {func(p *corev1.Pod) { p.Spec.Containers[0].Resources = asks("nvidia.com/gpu") }, false},
		"an FPGA at first":      {func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{Resources: asks("example.com/fpga")}} }, false},
		"cpu":                   {func(p *corev1.Pod) { p.Spec.Containers[0].Resources = asks("cpu") }, true},
		"of Ray":                {func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{Kind: "RayCluster"}} }, false},
		"of a ReplicaSet":       {func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet"}} }, true},
		"with the label":        {func(p *corev1.Pod) { p.Labels = map[string]string{"queue": "a"} }, false},
		"with another label":    {func(p *corev1.Pod) { p.Labels = map[string]string{"app": "a"} }, true},
		"in the host's network": {func(p *corev1.Pod) { p.Spec.HostNetwork = true }, false},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{SchedulerName: "default-scheduler", Containers: []corev1.Container{{Name: "c"}}}}
		tt.change(pod)
		if got, err := matches(pod); err != nil || got != tt.want {
			t.Errorf("%s: the policy matches: %v, %v, want %v", name, got, err, tt.want)
		}
	}
}

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

// TestTenants_LimitsRepelNobody has a tenant put a pod with a tiny request and a huge limit on all nodes but one. Other pods must
// go to the same nodes as without these pods: up to the load line on one node, then the next.
func TestTenants_LimitsRepelNobody(t *testing.T) {
	const (
		nodes = 20
		pods  = 40
		// below is the number of pods below the line of 40 %. A node is at 12.5 % of 8 cores, and each pod adds 1.25 %.
		below = 22
	)
	e := start(t, cluster.Options{Scheduler: configuration("TargetLoadPacking", 5, byLoad, "window: 5m", prometheus)})
	before := map[string]float64{}
	names := numbered("node", nodes)
	for _, name := range names {
		e.must(e.CreateNodes(e.ctx, cluster.Node{Name: name, CPU: "8", Memory: "32Gi", Labels: map[string]string{"name": name}}))
		e.must(e.SetLoad(e.ctx, name, cluster.Load{Usage: cluster.Usage{CPU: "1", Memory: "1Gi"}}))
		before[name] = 0.125
	}
	e.waitLoad(10*time.Second, before, tolerance)

	quantity := func(cpu string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
	attack, honest := map[string]string{"batch": "attack"}, map[string]string{"batch": "honest"}
	for _, name := range names[1:] {
		e.must(e.CreatePods(e.ctx, cluster.Pod{
			Name: "attack-" + name, Scheduler: profile, Labels: attack, NodeSelector: map[string]string{"name": name},
			Resources: corev1.ResourceRequirements{Requests: quantity("1m"), Limits: quantity("1k")},
		}))
	}
	check.Value(e.WaitBound(e.ctx, attack, nodes-1))(e.t)

	for _, name := range numbered("honest", pods) {
		e.must(e.CreatePods(e.ctx, cluster.Pod{
			Name: name, Scheduler: profile, Labels: honest, Usage: cluster.Usage{CPU: "100m"},
			Resources: corev1.ResourceRequirements{Requests: quantity("100m"), Limits: quantity("100m")},
		}))
	}
	nodeOf := check.Value(e.WaitBound(e.ctx, honest, pods))(e.t)
	count := map[string]int{}
	for _, node := range nodeOf {
		count[node]++
	}
	// One pod's share is allowed for errors of measurement.
	if n := count[names[0]]; n > below+1 {
		t.Errorf("%d of %d pods are on the one node without a pod of the tenant, want at most %d: %v", n, pods, below+1, count)
	}
}

// TestTenants_RequestPolicy has a tenant create pods that skip the schedulers, with requests that wrap their sums. The API server
// rejects them with the chart's policy, and a resize to them. Other pods pass.
func TestTenants_RequestPolicy(t *testing.T) {
	e := start(t, cluster.Options{})
	e.must(e.CreateNodes(e.ctx, cluster.Node{Name: "node", CPU: "8", Memory: "32Gi"}))
	for _, o := range render(t, system, "requestPolicy: {enabled: true}") {
		if strings.HasPrefix(o.GetKind(), "ValidatingAdmissionPolicy") {
			e.must(e.tryApply([]*unstructured.Unstructured{o}))
		}
	}
	with := func(name string, memory ...string) *corev1.Pod {
		return podIn(metav1.NamespaceDefault, name, func(p *corev1.Pod) {
			p.Spec.NodeName, p.Spec.Containers = "node", nil
			for i, quantity := range memory {
				p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
					Name: fmt.Sprint("c", i), Image: "registry.k8s.io/pause:3.10",
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(quantity)}},
				})
			}
		})
	}
	const beyond = "a request of the pod is beyond any node"
	pods := e.Client.CoreV1().Pods(metav1.NamespaceDefault)
	e.eventually("the policy to reject a pod", func() bool {
		_, err := pods.Create(e.ctx, with("wraps", "5Ei", "5Ei"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), beyond)
	})
	_, err := pods.Create(e.ctx, with("reads-as-0", "1e30"), metav1.CreateOptions{})
	check.Error(t, err, beyond)

	e.createPod(with("honest", "1Gi", "1Gi"))
	pending := with("pending", "1Gi", "1Gi") // newer API servers reject the resize of a bound pod beyond its node by themselves
	pending.Spec.NodeName = ""
	pod := e.createPod(pending)
	resized := pod.DeepCopy()
	resized.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse("2Gi")
	resized = check.Value(pods.UpdateResize(e.ctx, pod.Name, resized, metav1.UpdateOptions{}))(t)
	for i := range resized.Spec.Containers {
		resized.Spec.Containers[i].Resources.Requests[corev1.ResourceMemory] = resource.MustParse("5Ei")
	}
	_, err = pods.UpdateResize(e.ctx, pod.Name, resized, metav1.UpdateOptions{})
	check.Error(t, err, beyond)
}

package learned

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ownedPod returns a pod with a controlling owner, unless kind is empty, and labels as keys and values in turn.
func ownedPod(namespace, kind, owner string, labels ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: owner + "-x", Labels: map[string]string{}}}
	if kind != "" {
		controller := true
		pod.OwnerReferences = []metav1.OwnerReference{
			{Kind: "Parent", Name: "parent"},
			{Kind: kind, Name: owner, Controller: &controller},
		}
	}
	for i := 0; i < len(labels); i += 2 {
		pod.Labels[labels[i]] = labels[i+1]
	}
	return pod
}

func TestWorkloadOf(t *testing.T) {
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		// want is empty where the pod has no workload.
		want string
	}{
		{"a Deployment's pod", ownedPod("shop", "ReplicaSet", "web-6d5f8c7b9d", "pod-template-hash", "6d5f8c7b9d"), "web"},
		{"a hash shorter than most", ownedPod("shop", "ReplicaSet", "web-6d", "pod-template-hash", "6d"), "web"},
		{"a Rollout's pod has its hash in another label", ownedPod("shop", "ReplicaSet", "web-6d5f8c7b9d"), "web"},
		{"a ReplicaSet of nobody", ownedPod("shop", "ReplicaSet", "web"), "web"},
		{"a ReplicaSet whose name ends in a word", ownedPod("shop", "ReplicaSet", "web-frontend"), "web-frontend"},
		{"a label that is not the hash", ownedPod("shop", "ReplicaSet", "web-front", "pod-template-hash", "other"), "web-front"},
		{"a name that is a hash alone", ownedPod("shop", "ReplicaSet", "-6d5f8c7b9d", "pod-template-hash", "6d5f8c7b9d"), "-6d5f8c7b9d"},
		{"a StatefulSet's pod", ownedPod("shop", "StatefulSet", "db-6d5f8c7b9d"), "db-6d5f8c7b9d"},
		{"a DaemonSet's pod", ownedPod("shop", "DaemonSet", "agent"), "agent"},
		{"a Job's pod", ownedPod("shop", "Job", "migrate"), "migrate"},
		{"a CronJob's pod", ownedPod("shop", "Job", "report-29384756"), "report"},
		{"a Job with a date in its name", ownedPod("shop", "Job", "report-2026"), "report-2026"},
		{"a Job with seven digits and a letter", ownedPod("shop", "Job", "report-2938475a"), "report-2938475a"},
		{"another controller's pod", ownedPod("shop", "Cassandra", "ring-29384756"), "ring-29384756"},
		{"a pod without owner", ownedPod("shop", "", "debug"), ""},
		{"a pod of its node", ownedPod("kube-system", "Node", "worker-1"), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, ok := WorkloadOf(tc.pod, "")
			if ok != (tc.want != "") || ok && got != (Workload{tc.pod.Namespace, tc.want}) {
				t.Errorf("got %v, %v, want %q", got, ok, tc.want)
			}
		})
	}
}

func TestWorkloadOf_Label(t *testing.T) {
	const label = "team/app"
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		want string
	}{
		{"the label comes before the owner", ownedPod("shop", "DaemonSet", "agent", label, "monitoring"), "monitoring"},
		{"a pod without owner", ownedPod("shop", "", "debug", label, "monitoring"), "monitoring"},
		{"a pod without the label", ownedPod("shop", "DaemonSet", "agent"), "agent"},
		{"an empty label", ownedPod("shop", "DaemonSet", "agent", label, ""), "agent"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, ok := WorkloadOf(tc.pod, label); !ok || got != workload(tc.want) {
				t.Errorf("got %v, %v, want %s", got, ok, tc.want)
			}
		})
	}
}

func TestWorkloadOf_OtherNamespacesAreOtherWorkloads(t *testing.T) {
	for _, label := range []string{"", "app"} {
		ours, _ := WorkloadOf(ownedPod("shop", "ReplicaSet", "web-6d5f8c7b9d", "app", "web", "pod-template-hash", "6d5f8c7b9d"), label)
		theirs, _ := WorkloadOf(ownedPod("mallory", "ReplicaSet", "web-6d5f8c7b9d", "app", "web", "pod-template-hash", "6d5f8c7b9d"),
			label)
		if ours == theirs {
			t.Errorf("label %q: both are %v", label, ours)
		}
	}
}

func TestWorkloadOf_DoesNotAllocate(t *testing.T) {
	pod := ownedPod("shop", "ReplicaSet", "web-6d5f8c7b9d", "pod-template-hash", "6d5f8c7b9d")
	if n := testing.AllocsPerRun(100, func() { WorkloadOf(pod, "app") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

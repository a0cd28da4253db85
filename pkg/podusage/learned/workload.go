package learned

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Workload names pods with similar usage. Pods of different namespaces never share a workload: tenants must not affect each other.
type Workload struct {
	Namespace string
	// Name is that of the controlling owner, without the hash of a ReplicaSet and the time of a CronJob's Job; or the value of
	// the label that the operator chose.
	Name string
}

// WorkloadOf returns the pod's workload, by the label if it is not empty and the pod has it, otherwise by its controlling owner.
// It returns false for a pod without either, and for a static pod: static pods have no workload.
func WorkloadOf(pod *corev1.Pod, label string) (Workload, bool) {
	if label != "" {
		if value := pod.Labels[label]; value != "" {
			return Workload{pod.Namespace, value}, true
		}
	}
	return OwnerOf(pod)
}

// OwnerOf is WorkloadOf without a label.
func OwnerOf(pod *corev1.Pod) (Workload, bool) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || owner.Kind == "Node" {
		return Workload{}, false
	}
	name := owner.Name
	switch owner.Kind {
	case "ReplicaSet":
		name = withoutTemplateHash(name, pod.Labels["pod-template-hash"])
	case "Job":
		name = withoutCronTime(name)
	}
	return Workload{pod.Namespace, name}, true
}

// withoutTemplateHash returns the name of the Deployment or compatible controller of a ReplicaSet: without the dash and the hash
// that the controller appends. For a Deployment, the hash is the pod's label pod-template-hash. Other names do not change.
func withoutTemplateHash(replicaSet, hash string) string {
	if base, ok := strings.CutSuffix(replicaSet, hash); ok && hash != "" && len(base) > 1 && base[len(base)-1] == '-' {
		return base[:len(base)-1]
	}
	// The letters and digits of k8s.io/apimachinery/pkg/util/rand.
	return withoutSuffix(replicaSet, 6, 10, "bcdfghjklmnpqrstvwxz2456789")
}

// withoutCronTime returns the name of the CronJob that a Job's name was made of: its controller appends a dash and the minutes
// since 1970. Other names are returned as they are.
func withoutCronTime(job string) string { return withoutSuffix(job, 8, 8, "0123456789") }

// withoutSuffix returns the name up to its last dash if what follows has the number of characters, all of them among those given.
func withoutSuffix(name string, shortest, longest int, characters string) string {
	i := strings.LastIndexByte(name, '-')
	suffix := name[i+1:]
	if i <= 0 || len(suffix) < shortest || len(suffix) > longest || strings.Trim(suffix, characters) != "" {
		return name
	}
	return name[:i]
}

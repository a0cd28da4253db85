package learned

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

// Workload names pods with similar usage. Pods of different namespaces never share a workload: tenants must not affect each other.
type Workload struct {
	Namespace string
	// Name is the value of the configured label, or the name of the controlling owner.
	// It omits the hash of a ReplicaSet and the time of a CronJob's Job.
	Name string
}

// WorkloadOf returns the pod's workload by the label, else by its controlling owner.
// It returns false for a pod without either. Static pods have no workload.
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

// withoutTemplateHash returns the name of a ReplicaSet's Deployment or compatible controller, without dash and hash.
// For a Deployment, the hash is the pod's label pod-template-hash. Other names do not change.
func withoutTemplateHash(replicaSet, hash string) string {
	if base, ok := strings.CutSuffix(replicaSet, hash); ok && hash != "" && len(base) > 1 && base[len(base)-1] == '-' {
		return base[:len(base)-1]
	}
	return withoutSuffix(replicaSet, text.MinPodNameHash, text.MaxPodNameHash, text.PodNameLetters)
}

// withoutCronTime returns the CronJob's name for the name of its Job. The controller appends a dash and the minutes since 1970.
// Other names do not change.
func withoutCronTime(job string) string {
	return withoutSuffix(job, text.JobTimeDigits, text.JobTimeDigits, "0123456789")
}

// withoutSuffix returns the name up to its last dash if shortest to longest of the characters follow.
func withoutSuffix(name string, shortest, longest int, characters string) string {
	i := strings.LastIndexByte(name, '-')
	suffix := name[i+1:]
	if i <= 0 || len(suffix) < shortest || len(suffix) > longest || strings.Trim(suffix, characters) != "" {
		return name
	}
	return name[:i]
}

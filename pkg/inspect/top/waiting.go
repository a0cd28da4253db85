package top

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

// WaitingPod is a pod without a node.
type WaitingPod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// SchedulerName is the profile that places the pod.
	SchedulerName string `json:"schedulerName"`
	// Since is when the pod was created.
	Since time.Time `json:"since"`
	// Reason and Message are those of the pod's condition PodScheduled. They are empty if no scheduler has looked at the pod.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Waiting returns the pods that wait for a node, the longest first.
func (s *Session) Waiting() []WaitingPod { return s.objects.waiting() }

func (o *Objects) waiting() []WaitingPod {
	o.mu.Lock()
	pods := slices.Collect(maps.Values(o.waits))
	o.mu.Unlock()
	var all []WaitingPod
	for _, pod := range pods {
		w := WaitingPod{
			Namespace: pod.Namespace, Name: pod.Name, SchedulerName: text.Excerpt(pod.Spec.SchedulerName),
			Since: pod.CreationTimestamp.UTC(),
		}
		if _, c := podutil.GetPodCondition(&pod.Status, corev1.PodScheduled); c != nil {
			w.Reason, w.Message = text.Excerpt(c.Reason), text.Excerpt(c.Message)
		}
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b WaitingPod) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return all
}

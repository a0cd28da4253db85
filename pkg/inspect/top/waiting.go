package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
)

// WaitingPod is a pod without a node.
type WaitingPod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// SchedulerName is the profile that places the pod.
	SchedulerName string `json:"schedulerName"`
	// Since is when the pod was created.
	Since time.Time `json:"since"`
	// Group is the pod's pod group, and GroupMinimum the lowest number of its pods that are placed; 0 if unknown.
	Group        string `json:"group,omitempty"`
	GroupMinimum int    `json:"groupMinimum,omitempty"`
	// Reason and Message are those of the pod's condition PodScheduled. They are empty if no scheduler has looked at the pod.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Waiting returns the pods that wait for a node, the longest first.
func (s *Session) Waiting() []WaitingPod { return s.objects.waiting(s.groups) }

func (o *Objects) waiting(groups cluster.PodGroups) []WaitingPod {
	var all []WaitingPod
	for _, pod := range o.waitingPods() {
		w := WaitingPod{
			Namespace: pod.Namespace, Name: pod.Name, SchedulerName: text.Excerpt(pod.Spec.SchedulerName),
			Since: pod.CreationTimestamp.UTC(),
		}
		if group := groups.Of(pod); group != nil {
			w.Group, w.GroupMinimum = group.Name, group.MinCount
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

// groupLines says of each group how many of the pods are in it.
func groupLines(pods []WaitingPod) (lines []string) {
	counts := map[WaitingPod]int{}
	for _, pod := range pods {
		if pod.Group != "" {
			counts[WaitingPod{Namespace: pod.Namespace, Group: pod.Group, GroupMinimum: pod.GroupMinimum}]++
		}
	}
	for g, count := range counts {
		line := fmt.Sprintf("Group %s/%s: %d waiting", g.Namespace, g.Group, count)
		if g.GroupMinimum > 0 {
			line += fmt.Sprintf(", minimum %d", g.GroupMinimum)
		}
		lines = append(lines, line+".")
	}
	slices.Sort(lines)
	return lines
}

package whatif

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/controller"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/manifest"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// scaleDown removes pods of the workload, in the order in which its controller deletes them.
func (p *planner) scaleDown(w *manifest.Workload, fewer int) error {
	pods := p.podsOf(w)
	if fewer > len(pods) {
		return fmt.Errorf("%s: %s fewer, but it has %d; write at most that", w, text.Count(fewer, "pod"), len(pods))
	}
	sortForDeletion(w, pods)
	removed, removedUIDs := map[*corev1.Pod]bool{}, map[types.UID]bool{}
	for _, pod := range pods[:fewer] {
		removed[pod] = true
		removedUIDs[pod.UID], removedUIDs[recreate(pod).UID] = true, true // it may wait, or be evicted by a drain
	}
	p.queue = slices.DeleteFunc(p.queue, func(q queued) bool { return removedUIDs[q.pod.UID] })
	p.evicted = slices.DeleteFunc(p.evicted, func(pod *corev1.Pod) bool { return removed[pod] })
	p.evicted = append(p.evicted, pods[:fewer]...)
	p.change("%s of %s removed, %d left", text.Count(fewer, "pod"), w, len(pods)-fewer)
	return nil
}

// sortForDeletion sorts pods in the order in which the workload's controller deletes them, and pods of one rank by name.
func sortForDeletion(w *manifest.Workload, pods []*corev1.Pod) {
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	if w.Kind == "StatefulSet" { // the highest ordinal first: a longer name has a higher one
		slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
			return cmp.Or(cmp.Compare(len(b.Name), len(a.Name)), strings.Compare(b.Name, a.Name))
		})
		return
	}
	onNode := map[string]int{}
	for _, pod := range pods {
		onNode[pod.Spec.NodeName]++
	}
	ranks := make([]int, len(pods))
	for i, pod := range pods {
		ranks[i] = onNode[pod.Spec.NodeName]
	}
	sort.Stable(controller.ActivePodsWithRanks{Pods: pods, Rank: ranks, Now: metav1.Time{Time: time.Now()}})
}

// podsOf returns the workload's pods in the cluster.
func (p *planner) podsOf(w *manifest.Workload) (pods []*corev1.Pod) {
	for _, pod := range p.pods {
		if pod.Namespace == w.Namespace && !podusage.HasEnded(pod) && pod.DeletionTimestamp == nil && w.Owns(pod) {
			pods = append(pods, pod)
		}
	}
	return pods
}

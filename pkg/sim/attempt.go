package sim

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// maxAttempts bounds the attempts to place a pod at once. The plugins of this project need three: before preemption, after it,
// and after a waiver, which waives all limits that keep the pod out together. One more is for other PostFilter plugins.
const maxAttempts = 4

// Try is Scheduler.Decide or Scheduler.Explain.
type Try func(ctx context.Context, pod *corev1.Pod) (*Result, error)

// Attempt tries the pod as often as the scheduler does at once: again after a limit was waived and, unless preempt is nil, after
// preempt has removed the victims. It returns the results of all attempts, also beside an error. The last result decides.
func Attempt(
	ctx context.Context, pod *corev1.Pod, try Try, preempt func(victims []*corev1.Pod) error,
) (results []*Result, err error) {
	for len(results) < maxAttempts {
		d, err := try(ctx, pod)
		if err != nil {
			return results, err
		}
		results = append(results, d)
		switch {
		case d.Waived():
		case d.Node != "" || preempt == nil || d.PostFilter == nil || d.PostFilter.NominatedNode == "" ||
			!d.PostFilter.Status.IsSuccess():
			return results, nil
		default:
			if err := preempt(d.PostFilter.Victims); err != nil {
				return results, err
			}
			nominated := *pod
			nominated.Status.NominatedNodeName = d.PostFilter.NominatedNode
			pod = &nominated
		}
	}
	return results, nil
}

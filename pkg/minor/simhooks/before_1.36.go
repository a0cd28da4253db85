//go:build kubernetes_1_34 || kubernetes_1_35

package simhooks

import (
	"context"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	schedulingcorev1 "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// ReportVictims makes the plugin report its victims before it returns, instead of evicting them in a goroutine. It chooses as
// before, with the random numbers of r. Before Kubernetes 1.36 the evaluator evicts, and there is no executor.
func ReportVictims(pl *defaultpreemption.DefaultPreemption, fw framework.Framework, r *rand.Rand, report Report) {
	const async = false
	pl.Evaluator = preemption.NewEvaluator(pl.Name(), fw, seeded{pl, r}, async)
	pl.Evaluator.PreemptPod = func(_ context.Context, c preemption.Candidate, by, victim *corev1.Pod, _ string) error {
		report(c.Name(), schedulingcorev1.PodPriority(by), victim)
		return nil
	}
}

// SchedulePod chooses a node.
func SchedulePod(
	ctx context.Context, s *scheduler.Scheduler, fw framework.Framework, state fwk.CycleState, pod *framework.PodInfo,
) (scheduler.ScheduleResult, error) {
	return s.SchedulePod(ctx, fw, state, pod.Pod)
}

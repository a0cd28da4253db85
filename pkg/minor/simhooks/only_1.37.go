//go:build !kubernetes_1_34 && !kubernetes_1_35 && !kubernetes_1_36 && !kubernetes_1_38

package simhooks

import (
	"context"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// ReportVictims makes the plugin report its victims before it returns, instead of evicting them in a goroutine. It chooses as
// before, with the random numbers of r.
func ReportVictims(pl *defaultpreemption.DefaultPreemption, fw framework.Framework, r *rand.Rand, report Report) {
	pl.Executor = preemption.NewExecutor(fw, feature.Features{EnableAsyncPreemption: false})
	// From Kubernetes 1.37 on, PreemptPod also returns whether the victim was not bound yet.
	pl.Executor.PreemptPod = func(
		_ context.Context, c preemption.Candidate, by preemption.ExecutorPreemptor, victim *corev1.Pod, _ string,
	) (bool, error) {
		report(c.Name(), by.Priority(), victim)
		return false, nil
	}
	pl.Evaluator = preemption.NewEvaluator(pl.Name(), fw, seeded{pl, r}, pl.Executor)
}

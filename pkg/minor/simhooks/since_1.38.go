//go:build kubernetes_1_38

package simhooks

import (
	"context"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// ReportVictims makes the plugin report its victims before it returns, instead of evicting them in a goroutine. It chooses as
// before, with the random numbers of r.
func ReportVictims(pl *defaultpreemption.DefaultPreemption, fw framework.Framework, r *rand.Rand, report Report) {
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	features.EnableAsyncPreemption = false
	executor := preemption.NewExecutor(fw, features)
	executor.PreemptPod = func(
		_ context.Context, c fwk.PreemptionCandidate, by preemption.ExecutorPreemptor, victim *corev1.Pod, _ string,
	) (bool, error) {
		report(c.Name(), by.Priority(), victim)
		return false, nil
	}
	pl.Executor = executor
	pl.Evaluator = preemption.NewEvaluator(pl.Name(), executing{fw, executor}, seeded{pl, r}, features)
}

// executing is a framework with another executor. From Kubernetes 1.38 on, evaluators take that of its PreemptionManager.
type executing struct {
	framework.Framework
	executor fwk.PreemptionExecutor
}

func (e executing) PreemptionManager() fwk.PreemptionManager {
	return manager{e.Framework.PreemptionManager(), e.executor}
}

type manager struct {
	fwk.PreemptionManager
	executor fwk.PreemptionExecutor
}

func (m manager) Executor() fwk.PreemptionExecutor { return m.executor }

// NominatedPods returns the pods that are nominated to the node.
func NominatedPods(q queue.SchedulingQueue, node string) []fwk.PodInfo {
	return q.NominatedPodsForNode(klog.Background(), node)
}

package plugintest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
)

// Spreader is what a plugin that spreads pods is to a scheduling cycle.
type Spreader interface {
	minor.PreFilterPlugin
	minor.PreFilterExtensions
	minor.FilterPlugin
	minor.PreScorePlugin
	minor.ScorePlugin
	minor.ScoreExtensions
}

// SpreadAnswers are all that a plugin says about a pod.
type SpreadAnswers struct {
	Said []string
	// Filtered and Scored report whether the plugin did so. Passed counts the nodes that it did not refuse.
	Filtered, Scored bool
	Passed           int
}

func (a *SpreadAnswers) say(what any, status *fwk.Status) {
	a.Said = append(a.Said, fmt.Sprint(what, " ", status.Code(), " ", status.Message()))
}

// Change is pods that leave a node, or those without a node that come to it.
type Change struct {
	Node fwk.NodeInfo
	Pods []*corev1.Pod
}

// Question is what a plugin is asked about.
type Question struct {
	Pod *corev1.Pod
	// Nodes are those of the scheduler's snapshot. Strangers are scored, but are not in it. Changed is what preemption tries.
	Nodes, Strangers []fwk.NodeInfo
	Changed          []Change
}

// Ask returns each status, those after changes of pods on some nodes too, and the scores before and after they are normalized.
// Nodes are scored in parallel.
func (q *Question) Ask(ctx context.Context, pl Spreader, state fwk.CycleState) *SpreadAnswers {
	pod, nodes := q.Pod, q.Nodes
	a := &SpreadAnswers{}
	result, status := pl.PreFilter(ctx, state, pod, nodes)
	a.say(result, status)
	passed := nodes
	if !status.IsSkip() {
		a.Filtered, passed = true, nil
		for _, node := range nodes {
			status := pl.Filter(ctx, state, pod, node)
			a.say(node.Node().Name, status)
			if status.IsSuccess() {
				passed = append(passed, node)
			}
		}
		for _, c := range q.Changed {
			copied := state.Clone()
			for _, by := range c.Pods {
				if by.Spec.NodeName != "" {
					a.say("RemovePod", pl.RemovePod(ctx, copied, pod, PodInfo(by), c.Node))
				} else {
					a.say("AddPod", pl.AddPod(ctx, copied, pod, PodInfo(by), c.Node))
				}
				for _, node := range nodes {
					a.say(node.Node().Name, pl.Filter(ctx, copied, pod, node))
				}
			}
		}
	}
	if a.Passed = len(passed); a.Passed == 0 {
		return a
	}
	passed = slices.Concat(passed, q.Strangers)
	status = pl.PreScore(ctx, state, pod, passed)
	a.say("PreScore", status)
	if status.IsSkip() {
		return a
	}
	a.Scored = true
	scores, statuses := make(minor.NodeScoreList, len(passed)), make([]*fwk.Status, len(passed))
	var scoring sync.WaitGroup
	const goroutines = 4
	for first := range goroutines {
		scoring.Go(func() {
			for i := first; i < len(passed); i += goroutines {
				scores[i].Name = passed[i].Node().Name
				scores[i].Score, statuses[i] = pl.Score(ctx, state, pod, passed[i])
			}
		})
	}
	scoring.Wait()
	for i, status := range statuses {
		a.say(scores[i].Score, status)
	}
	a.say("NormalizeScore", pl.NormalizeScore(ctx, state, pod, scores))
	for _, s := range scores {
		a.Said = append(a.Said, fmt.Sprint(s))
	}
	return a
}

// PodInfo returns the pod as the scheduler's cache holds it.
func PodInfo(pod *corev1.Pod) *framework.PodInfo {
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		panic(err)
	}
	return info
}

package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Group is the placement of the pods of a group, until it is undone.
type Group struct {
	// Placed are assumed on their nodes. Failed found no node.
	Placed, Failed []*Result
	// Relaxed is the number of pods that found a node only because a limit was waived.
	Relaxed int
	// Victims are pods that were removed for them.
	Victims []*corev1.Pod

	scheduler *Scheduler
	pods      []*corev1.Pod
}

// PlaceGroup places pods one after the other, as the scheduler tries those of a pod group, and preempts for each by itself. The
// caller knows how many have to find a node, and calls Undo if fewer do. A plugin's error is a reason why a pod finds none. If
// a pod finds no node, pods alike are not tried.
func (s *Scheduler) PlaceGroup(ctx context.Context, pods []*corev1.Pod) (*Group, error) {
	g := &Group{scheduler: s, pods: pods}
	s.takeDisplaced()
	var last *Result // of a pod that found no node, if nothing has changed since
	for _, pod := range pods {
		if last != nil && s.alike(last.Pod, pod) {
			again := *last
			again.Pod = pod
			g.Failed = append(g.Failed, &again)
			continue
		}
		last = nil
		victims := len(g.Victims)
		attempts, err := Attempt(ctx, pod, s.Decide, g.preempt)
		if ctx.Err() != nil {
			return nil, errors.Join(ctx.Err(), g.Undo(context.WithoutCancel(ctx)))
		}
		if err != nil {
			g.Failed = append(g.Failed, &Result{Pod: pod, Err: err})
			continue
		}
		n := len(attempts)
		d := attempts[n-1]
		if d.Node == "" {
			g.Failed = append(g.Failed, d)
			if len(g.Victims) == victims {
				last = d
			}
			continue
		}
		if n > 1 && attempts[n-2].Waived() {
			g.Relaxed++
		}
		if err := s.Assume(ctx, d); err != nil {
			return nil, errors.Join(err, g.Undo(ctx))
		}
		g.Placed = append(g.Placed, d)
	}
	return g, nil
}

// alike reports whether the filters cannot tell the pods apart, such as those of an indexed Job.
func (s *Scheduler) alike(a, b *corev1.Pod) bool {
	isOwn := func(v corev1.Volume) bool { return v.Ephemeral != nil }
	if len(b.Spec.ResourceClaims) > 0 || slices.ContainsFunc(b.Spec.Volumes, isOwn) {
		return false // each pod has its own claims
	}
	if _, held, _ := s.cluster.find(b); held != nil && held.(*corev1.Pod).Status.NominatedNodeName != "" {
		return false // what is reserved for the pod is free for it alone
	}
	return equality.Semantic.DeepEqual(withoutIndex(a), withoutIndex(b)) && (a.Labels[index] == b.Labels[index] || !s.selectsIndex(b))
}

// index is the label that tells the pods of an indexed Job apart.
const index = batchv1.JobCompletionIndexAnnotation

// withoutIndex returns what pods of a Job have in common, as far as filters read it: no annotations. Names of volumes are random.
func withoutIndex(pod *corev1.Pod) *corev1.Pod {
	p := &corev1.Pod{Spec: *pod.Spec.DeepCopy()}
	p.Namespace, p.OwnerReferences, p.Labels = pod.Namespace, pod.OwnerReferences, maps.Clone(pod.Labels)
	delete(p.Labels, index)
	p.Spec.Hostname = ""
	for _, containers := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			containers[i].VolumeMounts = nil
		}
	}
	for i := range p.Spec.Volumes {
		p.Spec.Volumes[i].Name = ""
	}
	return p
}

// selectsIndex reports whether the index matters to a required term of the pod, or to a required anti-affinity of pods on nodes.
func (s *Scheduler) selectsIndex(pod *corev1.Pod) bool {
	if strings.Contains(fmt.Sprint(pod.Spec.Affinity, pod.Spec.TopologySpreadConstraints), index) {
		return true
	}
	nodes, _ := s.snapshot.HavePodsWithRequiredAntiAffinityList() // a snapshot returns no error
	for _, node := range nodes {
		for _, other := range node.GetPodsWithRequiredAntiAffinity() {
			for _, term := range other.GetRequiredAntiAffinityTerms() {
				if strings.Contains(term.Selector.String(), index) {
					return true
				}
			}
		}
	}
	return false
}

func (g *Group) preempt(victims []*corev1.Pod) error {
	for _, victim := range victims {
		if err := g.scheduler.Remove(victim); err != nil {
			return err
		}
		g.Victims = append(g.Victims, victim)
	}
	return nil
}

// Undo leaves the cluster as it was before PlaceGroup.
func (g *Group) Undo(ctx context.Context) error {
	s, errs := g.scheduler, []error(nil)
	for _, d := range slices.Backward(g.Placed) {
		errs = append(errs, s.Forget(ctx, d))
	}
	for _, victim := range g.Victims {
		errs = append(errs, s.Add(victim))
	}
	for _, pod := range g.pods { // attempts have changed their nominations
		if _, held, err := s.cluster.find(pod); held != nil {
			errs = append(errs, err, s.cluster.renew(held.(*corev1.Pod)))
		}
	}
	for _, displaced := range s.takeDisplaced() {
		errs = append(errs, s.cluster.renew(displaced))
	}
	return errors.Join(errs...)
}

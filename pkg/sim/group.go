package sim

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
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
// caller knows how many have to find a node, and calls Undo if fewer do. A plugin's error is a reason why a pod finds none.
func (s *Scheduler) PlaceGroup(ctx context.Context, pods []*corev1.Pod) (*Group, error) {
	g := &Group{scheduler: s, pods: pods}
	s.takeDisplaced()
	for _, pod := range pods {
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

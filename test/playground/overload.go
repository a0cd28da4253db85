package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

const (
	// overloadLine is the load line of the profiles, relieved what is left of a load that falls.
	overloadLine = 0.80
	relieved     = 0.20
	// relievedNode is the node whose load falls: not the one that is least loaded before.
	relievedNode = "full-1"
	// coolest is the node that is least loaded before.
	coolest = "full-3"
	// flush is when the scheduler tries all pods again that it could not place, whatever happens.
	flush = 5 * time.Minute
)

func overloaded() map[string]float64 {
	return map[string]float64{"full-1": 0.95, "full-2": 0.90, coolest: 0.85}
}

// overload is what became of a pod for which the line is soft, and of one for which it is hard.
type overload struct {
	// measured is the CPU utilization of each node when the pods came.
	measured map[string]float64
	// relaxed and rejected are the nodes that the pods are on in the end.
	relaxed, rejected string
	// why is what the scheduler said of the pod that had to wait.
	why string
	// afterRefusal is the time from the refusal of the first pod to its placement; afterFall that from the fall of the load to
	// the placement of the other one.
	afterRefusal, afterFall time.Duration
}

func runOverload(ctx context.Context, p *playground) (result, error) {
	p.progress.say("overload: three nodes, all of them above their load line at %.0f %%", 100*overloadLine)
	for node, load := range overloaded() {
		if err := p.createLoaded(ctx, node, cpuUsage(load)); err != nil {
			return nil, err
		}
	}
	var r overload
	var err error
	if r.measured, err = p.WaitCPUUtilization(ctx, settled(overloaded())); err != nil {
		return nil, err
	}
	if r.relaxed, r.afterRefusal, err = p.relax(ctx); err != nil {
		return nil, err
	}
	p.progress.say("with Relax the pod is on %s", r.relaxed)

	if err := p.CreatePods(ctx, overloadPod(rejectProfile)); err != nil {
		return nil, err
	}
	if r.why, err = p.WaitRefused(ctx, rejectProfile); err != nil {
		return nil, err
	}
	p.progress.say("with Reject it waits; now the load of %s falls to %.0f %%", relievedNode, 100*relieved)
	fell := time.Now()
	if err := p.SetLoad(ctx, relievedNode, cluster.Load{Usage: cpuUsage(relieved)}); err != nil {
		return nil, err
	}
	bound, err := p.WaitBound(ctx, overloadPod(rejectProfile).Labels, 1)
	if err != nil {
		return nil, err
	}
	scheduled, err := p.WaitEvent(ctx, rejectProfile, "Scheduled")
	r.rejected, r.afterFall = bound[rejectProfile], scheduled.Time.Sub(fell)
	p.progress.say("it is on %s", r.rejected)
	return r, err
}

// relax creates the pod for which the line is soft, and returns its node and how long after it was refused it got there.
func (p *playground) relax(ctx context.Context) (string, time.Duration, error) {
	if err := p.CreatePods(ctx, overloadPod(relaxProfile)); err != nil {
		return "", 0, err
	}
	bound, err := p.WaitBound(ctx, overloadPod(relaxProfile).Labels, 1)
	if err != nil {
		return "", 0, err
	}
	refused, err := p.WaitEvent(ctx, relaxProfile, "FailedScheduling")
	if err != nil {
		return "", 0, err
	}
	scheduled, err := p.WaitEvent(ctx, relaxProfile, "Scheduled")
	return bound[relaxProfile], scheduled.Time.Sub(refused.Time), err
}

// overloadPod is a pod of the name of its profile.
func overloadPod(profile string) cluster.Pod {
	return cluster.Pod{
		Name: profile, Scheduler: profile, Labels: map[string]string{"overload": profile}, Resources: resources("1m", "1m"),
	}
}

func cpuUsage(utilization float64) cluster.Usage {
	return cluster.Usage{CPU: fmt.Sprintf("%.0fm", 8000*utilization), Memory: "4Gi"}
}

func (r overload) write(page page) {
	page.line("All nodes are above their load line | at %.0f %%: a pod for which it is soft, and one that waits.", 100*overloadLine)
	for _, node := range []string{"full-1", "full-2", "full-3"} {
		landed := ""
		if node == r.relaxed {
			landed = "  <- Relax"
		}
		page.line("%-8s %5.1f %%  %s%s", node, 100*r.measured[node], page.paint.bar(r.measured[node], overloadLine), landed)
	}
	page.line("Relax:  on %s %.3f s after it was refused", r.relaxed, r.afterRefusal.Seconds())
	page.line("Reject: waits, %s", firstSentence(r.why))
	page.line("        on %s %.1f s after its load fell from %.0f to %.0f %%",
		r.rejected, r.afterFall.Seconds(), 100*r.measured[relievedNode], 100*relieved)
}

// firstSentence returns a message up to its first full stop, and no more of it than fits on a line.
func firstSentence(message string) string {
	const width = 80
	for i, c := range message {
		if c == '.' || i == width {
			return message[:i]
		}
	}
	return message
}

func (r overload) check() error {
	var errs []error
	if r.relaxed != coolest {
		errs = append(errs, fmt.Errorf("with Relax the pod is on %s, must be on %s, the least loaded", r.relaxed, coolest))
	}
	if r.rejected != relievedNode {
		errs = append(errs, fmt.Errorf("with Reject the pod is on %s, must be on %s, whose load fell", r.rejected, relievedNode))
	}
	for _, wait := range []struct {
		what string
		took time.Duration
	}{{"it was refused", r.afterRefusal}, {"load fell", r.afterFall}} {
		switch {
		case wait.took < 0:
			errs = append(errs, fmt.Errorf("a pod was bound before %s", wait.what))
		case wait.took >= flush:
			errs = append(errs, fmt.Errorf("a pod was bound only %s after %s", wait.took, wait.what))
		}
	}
	return errors.Join(errs...)
}

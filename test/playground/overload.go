package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

const (
	// overloadLine is the load line of the profiles.
	overloadLine = 0.80
	// coolest is the node that is least loaded at first.
	coolest = "full-3"
	// relievedNode is the node whose load then falls to relieved. It is not the coolest one.
	relievedNode = "full-1"
	relieved     = 0.20
	// flush is the age at which the scheduler retries a pod that it refused, even if nothing has changed.
	flush = 5 * time.Minute
)

// overloaded returns the utilization of each node, by the node's name. No measuring error takes one below the load line or
// past another node.
func overloaded() map[string]float64 {
	return map[string]float64{"full-1": 0.95, "full-2": 0.90, coolest: 0.85}
}

// overload is the result of the scenario. One pod's profile has the soft limit, whenNoneFits: Relax. The other pod's has the hard
// limit, whenNoneFits: Reject.
type overload struct {
	// measured is the CPU utilization of each node before the pods were created, by the node's name.
	measured map[string]float64
	// relaxed and rejected are the nodes that the pods are on in the end.
	relaxed, rejected string
	// why is the scheduler's message about the pod that had to wait.
	why string
	// afterRefusal is the time from the refusal of the first pod until it was placed.
	afterRefusal time.Duration
	// afterFall is the time from the fall of the load until the other pod was placed.
	afterFall time.Duration
}

func runOverload(ctx context.Context, p *playground) result {
	p.progress.say("overload: three nodes, all above their load line at %.0f %%", 100*overloadLine)
	for node, load := range overloaded() {
		p.createNode(ctx, node, cluster.Load{Usage: cpuUsage(load)}, nil)
	}
	var r overload
	r.measured = p.waitLoad(ctx, overloaded(), measuringError)
	r.relaxed, r.afterRefusal = p.relax(ctx)
	p.progress.say("the pod with Relax is on %s", r.relaxed)

	must(p.CreatePods(ctx, overloadPod(rejectProfile)))
	r.why = got(p.WaitRefused(ctx, rejectProfile))
	p.progress.say("the pod with Reject waits; now the load of %s falls to %.0f %%", relievedNode, 100*relieved)
	fell := time.Now()
	must(p.SetLoad(ctx, relievedNode, cluster.Load{Usage: cpuUsage(relieved)}))
	bound := got(p.WaitBound(ctx, overloadPod(rejectProfile).Labels, 1))
	scheduled := got(p.WaitEvent(ctx, rejectProfile, "Scheduled"))
	r.rejected, r.afterFall = bound[rejectProfile], scheduled.Time.Sub(fell)
	p.progress.say("the pod with Reject is on %s", r.rejected)
	return r
}

// relax creates the pod with the soft limit. It returns the pod's node and the time from its refusal until it was placed.
func (p *playground) relax(ctx context.Context) (string, time.Duration) {
	must(p.CreatePods(ctx, overloadPod(relaxProfile)))
	bound := got(p.WaitBound(ctx, overloadPod(relaxProfile).Labels, 1))
	refused := got(p.WaitEvent(ctx, relaxProfile, "FailedScheduling"))
	scheduled := got(p.WaitEvent(ctx, relaxProfile, "Scheduled"))
	return bound[relaxProfile], scheduled.Time.Sub(refused.Time)
}

func overloadPod(profile string) cluster.Pod {
	return cluster.Pod{
		Name: profile, Scheduler: profile, Labels: map[string]string{"overload": profile}, Resources: resources("1m", "1m"),
	}
}

// cpuUsage returns the usage of an 8-core node at a utilization.
func cpuUsage(utilization float64) cluster.Usage {
	return cluster.Usage{CPU: fmt.Sprintf("%.0fm", 8000*utilization), Memory: "4Gi"}
}

func (r overload) write(page page) {
	page.line("All nodes are above their load line | at %.0f %%. With whenNoneFits: Relax a pod is placed on the least",
		100*overloadLine)
	page.line("loaded node; with whenNoneFits: Reject it waits until the load of a node has fallen.")
	for _, node := range []string{"full-1", "full-2", "full-3"} {
		landed := ""
		if node == r.relaxed {
			landed = "  <- Relax"
		}
		page.line("%-8s %5.1f %%  %s%s", node, 100*r.measured[node], page.paint.bar(r.measured[node], overloadLine), landed)
	}
	page.line("Relax:  placed on %s %.3f s after it was refused", r.relaxed, r.afterRefusal.Seconds())
	page.line("Reject: refused: %s", firstSentence(r.why))
	page.line("        placed on %s %.1f s after the load of %s fell from %.0f to %.0f %%",
		r.rejected, r.afterFall.Seconds(), relievedNode, 100*r.measured[relievedNode], 100*relieved)
}

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
		errs = append(errs, fmt.Errorf("the pod with Relax is on %s, must be on %s, the least loaded node", r.relaxed, coolest))
	}
	if r.rejected != relievedNode {
		errs = append(errs, fmt.Errorf("the pod with Reject is on %s, must be on %s, whose load fell", r.rejected, relievedNode))
	}
	for _, wait := range []struct {
		mode, event string
		took        time.Duration
	}{{"Relax", "it was refused", r.afterRefusal}, {"Reject", "the load fell", r.afterFall}} {
		switch {
		case wait.took < 0:
			errs = append(errs, fmt.Errorf("the pod with %s was placed before %s", wait.mode, wait.event))
		case wait.took >= flush:
			errs = append(
				errs,
				fmt.Errorf("the pod with %s was placed %s after %s, must be less than %s, after which the scheduler retries anyway",
					wait.mode, wait.took, wait.event, flush),
			)
		}
	}
	return errors.Join(errs...)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/targetloadpacking"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

const (
	// arrivalInterval is the time between the creations of two pods.
	arrivalInterval = 200 * time.Millisecond
	// outageCalm is the length of the phases before and after the outage; on a busy machine they are longer.
	outageCalm = 3 * time.Second
	// outageLength is how long Prometheus is stopped before the decisions are counted that must do without load.
	outageLength = maxAge + 2*time.Second
	// outageDecisions is the number of those decisions.
	outageDecisions = 10
	// outageTimeout ends the wait for decisions that do not come. It is generous for busy machines.
	outageTimeout = 2 * time.Minute
)

type decisions struct {
	total int
	// requests is the number of decisions in which at least one node was scored by the requests of its pods.
	requests int
	// skipped is the number of decisions without fresh load of any node, which the plugin left to the profile's others.
	skipped int
}

func (d decisions) minus(earlier decisions) decisions {
	return decisions{d.total - earlier.total, d.requests - earlier.requests, d.skipped - earlier.skipped}
}

func (d decisions) fresh() int { return d.total - d.requests - d.skipped }

// decisions reads the counts since the start of the scheduler from the scheduler's metrics.
func (p *playground) decisions(ctx context.Context) decisions {
	m := got(p.SchedulerMetrics(ctx))
	fallbacks := func(reason string) int {
		return int(m.Sum("plimsoll_fallback_total", "plugin", targetloadpacking.Name, "reason", reason))
	}
	return decisions{
		total: int(m.Sum("plimsoll_decisions_total", "plugin", targetloadpacking.Name)),
		// A decision with nodes in both states counts twice: fresh is rather too low than too high.
		requests: fallbacks("Absent") + fallbacks("Expired"),
		skipped:  fallbacks("StepAside"),
	}
}

type outage struct {
	// created and bound are the numbers of pods.
	created, bound int
	phases         []outagePhase
	// recovered reports that decisions were based on fresh load again after the outage.
	recovered bool
}

type outagePhase struct {
	name      string
	took      time.Duration
	decisions decisions
}

// The names of the phases.
const (
	phaseBefore  = "Prometheus runs"
	phaseStopped = "it is stopped"
	phaseBack    = "it is back"
	phaseAfter   = "load decides again"
)

func runOutage(ctx context.Context, p *playground) result {
	p.progress.say("outage: five nodes with a steady load and one whose load moves; a pod every %s", arrivalInterval)
	steady := map[string]float64{}
	for i, cpu := range []int{800, 1600, 2400, 4000, 4800} {
		name := fmt.Sprintf("steady-%d", i+1)
		steady[name] = float64(cpu) / 8000
		p.createNode(ctx, name, cluster.Load{Usage: cpuUsage(steady[name])}, nil)
	}
	// The mean of this node moves by tens of points within seconds. So its load expires earlier than that of the others.
	moving := cluster.Usage{CPU: "4", Memory: "4Gi", CPUSwing: "3", SwingPeriod: 2 * window}
	p.createNode(ctx, "moving", cluster.Load{Usage: moving}, nil)
	got(p.WaitCPUUtilization(ctx, cluster.Expectation{Window: window, CPU: map[string]float64{"moving": 0.5}, Tolerance: 1}))
	p.waitLoad(ctx, steady, measuringError)

	arriving := p.Arrive(ctx, arrivalInterval, func(number int) cluster.Pod {
		return cluster.Pod{
			Name: fmt.Sprintf("arrival-%04d", number), Scheduler: plimsollProfile, Labels: arrivalLabels(), Resources: resources("1m", "1m"),
		}
	})
	defer func() { _, _ = arriving.End() }()
	r := p.runPhases(ctx)
	r.created = got(arriving.End())
	r.bound = len(got(p.WaitBound(ctx, arrivalLabels(), r.created)))
	return r
}

// createNode creates a node of 8 cores and 32Gi with a load.
func (p *playground) createNode(ctx context.Context, name string, load cluster.Load, labels map[string]string) {
	must(p.CreateNodes(ctx, cluster.Node{Name: name, CPU: "8", Memory: "32Gi", Labels: labels}))
	must(p.SetLoad(ctx, name, load))
}

func (p *playground) runPhases(ctx context.Context) (r outage) {
	last := p.decisions(ctx)
	phase := func(name string, do func()) {
		began := time.Now()
		do()
		now := p.decisions(ctx)
		r.phases = append(r.phases, outagePhase{name, time.Since(began), now.minus(last)})
		last = now
	}
	calm := func() {
		p.sleep(ctx, outageCalm)
		p.waitDecisions(ctx, last, func(d decisions) bool { return d.fresh() > 0 })
	}
	phase(phaseBefore, calm)
	p.progress.say("Prometheus is stopped; load expires after %.0f s at the latest", maxAge.Seconds())
	phase(phaseStopped, func() {
		must(p.Prometheus.Stop())
		p.sleep(ctx, outageLength)
		p.waitDecisions(ctx, p.decisions(ctx), func(d decisions) bool { return d.total >= outageDecisions })
	})
	p.progress.say("Prometheus is started again")
	phase(phaseBack, func() {
		must(p.Prometheus.Start(ctx))
		r.recovered = p.waitRecovery(ctx)
	})
	if r.recovered {
		phase(phaseAfter, calm)
	}
	return r
}

// waitDecisions waits until the decisions since an earlier count are enough. It returns false if they are not after
// outageTimeout.
func (p *playground) waitDecisions(ctx context.Context, earlier decisions, enough func(decisions) bool) bool {
	for deadline := time.Now().Add(outageTimeout); time.Now().Before(deadline); p.sleep(ctx, time.Second) {
		if enough(p.decisions(ctx).minus(earlier)) {
			return true
		}
	}
	return false
}

// waitRecovery waits for a second in which decisions are based on fresh load and none is skipped. It returns false if there
// is none within outageTimeout.
func (p *playground) waitRecovery(ctx context.Context) bool {
	var last decisions
	return p.waitDecisions(ctx, decisions{}, func(now decisions) bool {
		d := now.minus(last)
		first := last == decisions{}
		last = now
		return !first && d.fresh() > 0 && d.skipped == 0
	})
}

// sleep returns after d. It ends the scenario if ctx ends, or if a part of the cluster has failed.
func (p *playground) sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		must(context.Cause(ctx))
	case <-timer.C:
		must(p.Failed())
	}
}

func arrivalLabels() map[string]string { return map[string]string{"scenario": "outage"} }

func (r outage) write(page page) {
	const row = "%-19s %7s %10s  %10s %12s %13s"
	page.line("A pod is created every %s. Prometheus is stopped until all load has expired (after %.0f s).", arrivalInterval,
		maxAge.Seconds())
	page.line("The load of one of the six nodes moves quickly and so expires earlier.")
	page.line("What the decisions were based on, by the scheduler's own metrics:")
	page.line(row, "", "seconds", "decisions", "fresh load", "requests*", "no load**")
	line := func(name string, took time.Duration, d decisions) {
		page.line(row, name, fmt.Sprintf("%.1f", took.Seconds()), fmt.Sprint(d.total), fmt.Sprint(d.fresh()), fmt.Sprint(d.requests),
			fmt.Sprint(d.skipped))
	}
	var took time.Duration
	for _, phase := range r.phases {
		line(phase.name, phase.took, phase.decisions)
		took += phase.took
	}
	line("in all", took, r.sum())
	page.line("*  at least one node was scored by the requests of its pods, because its load had expired")
	page.line("** TargetLoadPacking skipped the pod, and the other plugins of the profile decided")
	page.line("%d of %d pods are bound.", r.bound, r.created)
}

func (r outage) sum() decisions {
	var sum decisions
	for _, phase := range r.phases {
		d := phase.decisions
		sum = decisions{sum.total + d.total, sum.requests + d.requests, sum.skipped + d.skipped}
	}
	return sum
}

func (r outage) check() error {
	var errs []error
	if r.bound != r.created {
		errs = append(errs, fmt.Errorf("%d of %d pods are bound", r.bound, r.created))
	}
	if !r.recovered {
		errs = append(errs, fmt.Errorf("no decision was based on fresh load within %s of the return of Prometheus", outageTimeout))
	}
	for _, phase := range r.phases {
		d := phase.decisions
		switch {
		case phase.name == phaseStopped && d.skipped == 0:
			errs = append(errs, errors.New("no decision was made without load, although all load had expired"))
		case (phase.name == phaseBefore || phase.name == phaseAfter) && (d.fresh() == 0 || d.skipped > 0):
			errs = append(errs, fmt.Errorf("%s: %d of %d decisions were based on fresh load, must be at least 1; %d on no load, must be 0",
				phase.name, d.fresh(), d.total, d.skipped))
		}
	}
	return errors.Join(errs...)
}

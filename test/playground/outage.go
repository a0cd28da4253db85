package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/targetloadpacking"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

const (
	// arrivalInterval is the time between two pods that arrive.
	arrivalInterval = 200 * time.Millisecond
	// outageCalm is how long is looked at what happens before and after, outageLength how long Prometheus is away.
	outageCalm   = 3 * time.Second
	outageLength = maxAge + 4*time.Second
	// outagePatience is how long load may take to decide again.
	outagePatience = time.Minute
)

// decisions are what a plugin's decisions were made by.
type decisions struct {
	// total is how many there were.
	total int
	// requests are those in which at least one node was judged by what its pods request, aside those in which the plugin
	// stepped aside. In all others fresh load alone decided.
	requests, aside int
}

func (d decisions) minus(earlier decisions) decisions {
	return decisions{d.total - earlier.total, d.requests - earlier.requests, d.aside - earlier.aside}
}

func (d decisions) fresh() int { return d.total - d.requests - d.aside }

// decisions reads the scheduler's own metrics.
func (p *playground) decisions(ctx context.Context) (decisions, error) {
	m, err := p.SchedulerMetrics(ctx)
	if err != nil {
		return decisions{}, err
	}
	fallbacks := func(reason string) int {
		return int(m.Sum("plimsoll_fallback_total", "plugin", targetloadpacking.Name, "reason", reason))
	}
	return decisions{
		total: int(m.Sum("plimsoll_decisions_total", "plugin", targetloadpacking.Name)),
		// A decision that found nodes in both states counts twice, so that those by fresh load are never overstated.
		requests: fallbacks("Absent") + fallbacks("Expired"),
		aside:    fallbacks("StepAside"),
	}, nil
}

// outage is what became of the pods that arrived meanwhile.
type outage struct {
	created, bound int
	phases         []outagePhase
	// recovered says that load decided again.
	recovered bool
}

// outagePhase is a part of the outage.
type outagePhase struct {
	name      string
	took      time.Duration
	decisions decisions
}

// The names of the phases.
const (
	phaseBefore = "Prometheus runs"
	phaseAway   = "it is stopped"
	phaseReturn = "it is back"
	phaseAfter  = "load decides again"
)

func runOutage(ctx context.Context, p *playground) (result, error) {
	p.progress.say("outage: five steady nodes and one whose load moves, a pod every %s", arrivalInterval)
	steady := map[string]float64{}
	for i, cpu := range []int{800, 1600, 2400, 4000, 4800} {
		name := fmt.Sprintf("steady-%d", i+1)
		if err := p.createLoaded(ctx, name, cluster.Usage{CPU: fmt.Sprintf("%dm", cpu), Memory: "4Gi"}); err != nil {
			return nil, err
		}
		steady[name] = float64(cpu) / 8000
	}
	// Its mean over the window moves by tens of points within seconds, so that it is not trusted for as long as the others.
	moving := cluster.Usage{CPU: "4", Memory: "4Gi", CPUSwing: "3", SwingPeriod: 2 * window}
	if err := p.createLoaded(ctx, "moving", moving); err != nil {
		return nil, err
	}
	if _, err := p.WaitCPUUtilization(ctx, settled(steady)); err != nil {
		return nil, err
	}
	if _, err := p.WaitCPUUtilization(ctx, cluster.Expectation{Window: window, CPU: map[string]float64{"moving": 0.5}, Tolerance: 1}); err != nil {
		return nil, err
	}

	arriving := p.arrive(ctx)
	defer func() { _, _ = arriving.end() }()
	r, err := p.goThroughOutage(ctx)
	if err != nil {
		return nil, err
	}
	created, err := arriving.end()
	if err != nil {
		return nil, err
	}
	bound, err := p.WaitBound(ctx, arrivalLabels(), created)
	r.created, r.bound = created, len(bound)
	return r, err
}

func (p *playground) createLoaded(ctx context.Context, node string, usage cluster.Usage) error {
	if err := p.CreateNodes(ctx, cluster.Node{Name: node, CPU: "8", Memory: "32Gi"}); err != nil {
		return err
	}
	return p.SetLoad(ctx, node, cluster.Load{Usage: usage})
}

// goThroughOutage takes Prometheus away and brings it back, and looks at what decisions are made by meanwhile.
func (p *playground) goThroughOutage(ctx context.Context) (outage, error) {
	var r outage
	last, err := p.decisions(ctx)
	if err != nil {
		return r, err
	}
	phase := func(name string, do func() error) error {
		began := time.Now()
		if err := do(); err != nil {
			return err
		}
		now, err := p.decisions(ctx)
		r.phases = append(r.phases, outagePhase{name, time.Since(began), now.minus(last)})
		last = now
		return err
	}
	pass := func(d time.Duration) error { return p.pass(ctx, d) }
	if err := phase(phaseBefore, func() error { return pass(outageCalm) }); err != nil {
		return r, err
	}
	p.progress.say("Prometheus is stopped for %.0f s; load is trusted for %.0f s at most", outageLength.Seconds(), maxAge.Seconds())
	if err := phase(phaseAway, func() error { return errors.Join(p.Prometheus.Stop(), pass(outageLength)) }); err != nil {
		return r, err
	}
	p.progress.say("Prometheus is started again")
	if err := phase(phaseReturn, func() (err error) {
		if err := p.Prometheus.Start(ctx); err != nil {
			return err
		}
		r.recovered, err = p.waitLoadDecides(ctx)
		return err
	}); err != nil || !r.recovered {
		return r, err
	}
	return r, phase(phaseAfter, func() error { return pass(outageCalm) })
}

// waitLoadDecides waits until fresh load decides, and returns whether it does before patience is at its end.
func (p *playground) waitLoadDecides(ctx context.Context) (bool, error) {
	for deadline := time.Now().Add(outagePatience); time.Now().Before(deadline); {
		before, err := p.decisions(ctx)
		if err != nil {
			return false, err
		}
		if err := p.pass(ctx, time.Second); err != nil {
			return false, err
		}
		after, err := p.decisions(ctx)
		if err != nil {
			return false, err
		}
		if d := after.minus(before); d.fresh() > 0 && d.aside == 0 {
			return true, nil
		}
	}
	return false, nil
}

// pass lets time pass.
func (p *playground) pass(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return p.Failed()
	}
}

// arrivals are pods that keep arriving.
type arrivals struct {
	cancel  context.CancelFunc
	done    sync.WaitGroup
	created int
	err     error
}

func arrivalLabels() map[string]string { return map[string]string{"scenario": "outage"} }

// arrive creates pods, one at a time, until end is called.
func (p *playground) arrive(ctx context.Context) *arrivals {
	arriving, cancel := context.WithCancel(ctx)
	a := &arrivals{cancel: cancel}
	a.done.Go(func() {
		ticker := time.NewTicker(arrivalInterval)
		defer ticker.Stop()
		for {
			select {
			case <-arriving.Done():
				return
			case <-ticker.C:
			}
			// With the outer context: a pod is created or it is not, the end of the arrivals does not come in between.
			if a.err = p.CreatePods(ctx, cluster.Pod{
				Name: fmt.Sprintf("arrival-%04d", a.created+1), Scheduler: plimsollProfile, Labels: arrivalLabels(),
				Resources: resources("1m", "1m"),
			}); a.err != nil {
				return
			}
			a.created++
		}
	})
	return a
}

// end stops the arrivals and returns how many there were. It may be called again.
func (a *arrivals) end() (int, error) {
	a.cancel()
	a.done.Wait()
	return a.created, a.err
}

func (r outage) write(page page) {
	const row = "%-19s %7s %10s  %10s %12s %13s"
	page.line("Prometheus is stopped for longer than load is trusted (%.0f s) while a pod arrives every %s.", maxAge.Seconds(), arrivalInterval)
	page.line("What the placements were decided by, as the scheduler's own metrics say:")
	page.line(row, "", "seconds", "decisions", "fresh load", "by requests*", "stepped aside")
	line := func(name string, took time.Duration, d decisions) {
		page.line(row, name, fmt.Sprintf("%.1f", took.Seconds()), fmt.Sprint(d.total), fmt.Sprint(d.fresh()), fmt.Sprint(d.requests),
			fmt.Sprint(d.aside))
	}
	var took time.Duration
	for _, phase := range r.phases {
		line(phase.name, phase.took, phase.decisions)
		took += phase.took
	}
	line("in all", took, r.sum())
	page.line("* at least one node was: the one whose load moves is not trusted for as long as the others")
	page.line("%d of %d pods are bound", r.bound, r.created)
}

func (r outage) sum() decisions {
	var sum decisions
	for _, phase := range r.phases {
		d := phase.decisions
		sum = decisions{sum.total + d.total, sum.requests + d.requests, sum.aside + d.aside}
	}
	return sum
}

func (r outage) check() error {
	var errs []error
	if r.bound != r.created {
		errs = append(errs, fmt.Errorf("%d of %d pods are bound", r.bound, r.created))
	}
	if !r.recovered {
		errs = append(errs, fmt.Errorf("load does not decide again %s after Prometheus is back", outagePatience))
	}
	for _, phase := range r.phases {
		d := phase.decisions
		switch {
		case phase.name == phaseAway && d.aside == 0:
			errs = append(errs, errors.New("no decision was made without any load, though load was older than it is trusted"))
		case (phase.name == phaseBefore || phase.name == phaseAfter) && (d.fresh() == 0 || d.aside > 0):
			errs = append(errs, fmt.Errorf("%s: %d of %d decisions were made by fresh load, %d without any",
				phase.name, d.fresh(), d.total, d.aside))
		}
	}
	return errors.Join(errs...)
}

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

// decisions counts decisions of a plugin by the load that they were based on.
type decisions struct {
	total int
	// requests is the number of decisions in which at least one node was scored by the requests of its pods.
	requests int
	// skipped is the number of decisions that the plugin left to the profile's other plugins, because no node had fresh load.
	skipped int
}

func (d decisions) minus(earlier decisions) decisions {
	return decisions{d.total - earlier.total, d.requests - earlier.requests, d.skipped - earlier.skipped}
}

// fresh returns the number of decisions in which all nodes had fresh load.
func (d decisions) fresh() int { return d.total - d.requests - d.skipped }

// decisions reads the counts since the start of the scheduler from the scheduler's metrics.
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
		// A decision with nodes in both states counts twice: fresh is rather too low than too high.
		requests: fallbacks("Absent") + fallbacks("Expired"),
		skipped:  fallbacks("StepAside"),
	}, nil
}

// outage is the result of the scenario.
type outage struct {
	// created and bound are the numbers of pods.
	created, bound int
	phases         []outagePhase
	// recovered reports that decisions were based on fresh load again after the outage.
	recovered bool
}

// outagePhase is a part of the scenario.
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

func runOutage(ctx context.Context, p *playground) (result, error) {
	p.progress.say("outage: five nodes with a steady load and one whose load moves; a pod every %s", arrivalInterval)
	steady := map[string]float64{}
	for i, cpu := range []int{800, 1600, 2400, 4000, 4800} {
		name := fmt.Sprintf("steady-%d", i+1)
		if err := p.createLoaded(ctx, name, cluster.Usage{CPU: fmt.Sprintf("%dm", cpu), Memory: "4Gi"}); err != nil {
			return nil, err
		}
		steady[name] = float64(cpu) / 8000
	}
	// The mean of this node moves by tens of points within seconds, so that its load expires earlier than that of the others.
	moving := cluster.Usage{CPU: "4", Memory: "4Gi", CPUSwing: "3", SwingPeriod: 2 * window}
	if err := p.createLoaded(ctx, "moving", moving); err != nil {
		return nil, err
	}
	if _, err := p.WaitCPUUtilization(
		ctx,
		cluster.Expectation{Window: window, CPU: map[string]float64{"moving": 0.5}, Tolerance: 1},
	); err != nil {
		return nil, err
	}
	if _, err := p.waitLoad(ctx, steady, measuringError); err != nil {
		return nil, err
	}

	arriving := p.arrive(ctx)
	defer func() { _, _ = arriving.end() }()
	r, err := p.runPhases(ctx)
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

// createLoaded creates a node of 8 cores and 32Gi with a usage.
func (p *playground) createLoaded(ctx context.Context, node string, usage cluster.Usage) error {
	if err := p.CreateNodes(ctx, cluster.Node{Name: node, CPU: "8", Memory: "32Gi"}); err != nil {
		return err
	}
	return p.SetLoad(ctx, node, cluster.Load{Usage: usage})
}

// runPhases stops Prometheus and starts it again, and counts the decisions of each phase.
func (p *playground) runPhases(ctx context.Context) (outage, error) {
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
	calm := func() error {
		if err := p.sleep(ctx, outageCalm); err != nil {
			return err
		}
		_, err := p.waitDecisions(ctx, last, func(d decisions) bool { return d.fresh() > 0 })
		return err
	}
	if err := phase(phaseBefore, calm); err != nil {
		return r, err
	}
	p.progress.say("Prometheus is stopped; load expires after %.0f s at the latest", maxAge.Seconds())
	if err := phase(phaseStopped, func() error {
		if err := errors.Join(p.Prometheus.Stop(), p.sleep(ctx, outageLength)); err != nil {
			return err
		}
		expired, err := p.decisions(ctx)
		if err != nil {
			return err
		}
		_, err = p.waitDecisions(ctx, expired, func(d decisions) bool { return d.total >= outageDecisions })
		return err
	}); err != nil {
		return r, err
	}
	p.progress.say("Prometheus is started again")
	if err := phase(phaseBack, func() (err error) {
		if err := p.Prometheus.Start(ctx); err != nil {
			return err
		}
		r.recovered, err = p.waitRecovery(ctx)
		return err
	}); err != nil || !r.recovered {
		return r, err
	}
	return r, phase(phaseAfter, calm)
}

// waitDecisions waits until the decisions since an earlier count are enough. It returns false if they are not after
// outageTimeout.
func (p *playground) waitDecisions(ctx context.Context, earlier decisions, enough func(decisions) bool) (bool, error) {
	for deadline := time.Now().Add(outageTimeout); time.Now().Before(deadline); {
		now, err := p.decisions(ctx)
		if err != nil || enough(now.minus(earlier)) {
			return err == nil, err
		}
		if err := p.sleep(ctx, time.Second); err != nil {
			return false, err
		}
	}
	return false, nil
}

// waitRecovery waits for a second in which decisions are based on fresh load and none is skipped. It returns false if there
// is none within outageTimeout.
func (p *playground) waitRecovery(ctx context.Context) (bool, error) {
	var last decisions
	return p.waitDecisions(ctx, decisions{}, func(now decisions) bool {
		d := now.minus(last)
		first := last == decisions{}
		last = now
		return !first && d.fresh() > 0 && d.skipped == 0
	})
}

// sleep returns after d, or at once with an error if ctx ends or a part of the cluster has failed.
func (p *playground) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return p.Failed()
	}
}

// arrivals creates pods at intervals.
type arrivals struct {
	cancel  context.CancelFunc
	done    sync.WaitGroup
	created int
	err     error
}

func arrivalLabels() map[string]string { return map[string]string{"scenario": "outage"} }

// arrive creates a pod every arrivalInterval until end is called.
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
			// end must not interrupt a creation: created would be wrong.
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

// end stops the arrivals and returns the number of pods created. It may be called again.
func (a *arrivals) end() (int, error) {
	a.cancel()
	a.done.Wait()
	return a.created, a.err
}

func (r outage) write(page page) {
	const row = "%-19s %7s %10s  %10s %12s %13s"
	page.line(
		"A pod is created every %s. Prometheus is stopped until all load has expired (after %.0f s).",
		arrivalInterval,
		maxAge.Seconds(),
	)
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

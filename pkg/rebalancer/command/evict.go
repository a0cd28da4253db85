package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/kube"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/plan"
)

// evictInterval is the time between two checks of replacements.
const evictInterval = 2 * time.Second

// maxFailures in a row end the command: a minute of failed steps.
const maxFailures = 30

// Eviction says how moves are made.
type Eviction struct {
	// Client has the user's permissions.
	Client kubernetes.Interface
	// Confirm shows the plan, and reports whether to make its moves.
	Confirm func(*Report) (bool, error)
	// Progress shows one line.
	Progress func(line string)
}

// Evict plans moves, and makes them once they are confirmed. It returns when each replacement is ready or has failed. Once ctx is
// done, it begins no more moves, and returns.
func Evict(ctx context.Context, c *cluster.Connection, r Request, e Eviction) error {
	configuration, err := ReadConfiguration(ctx, r.Rebalancer)
	if err != nil {
		return err
	}
	own, err := c.ValidConfiguration(ctx, r.Configuration)
	if err != nil {
		return err
	}
	r.Found(own)
	if own.Workload != nil {
		own.Decoded.LeaderElection = own.Workload.LeaderElection(own.Decoded)
	}
	following, cancel := context.WithCancel(context.WithoutCancel(ctx))
	world, err := Follow(following, c, cluster.Options{Configuration: own.Decoded, Source: r.Source, Clock: clock.RealClock{}})
	if err != nil {
		cancel()
		return fmt.Errorf("%s: %w", own.Origin, err)
	}
	defer world.Close()
	defer cancel()
	report := &Report{
		Configuration: own.Origin, Profile: world.Profile, Plugin: world.Plugin, Nodes: []NodeChange{}, Moves: []Move{}, Stay: []Stay{},
	}
	if report.Notes, err = world.Refresh(ctx); err != nil {
		return err
	}
	store, err := storeOf(ctx, e.Client)
	if err != nil {
		return fmt.Errorf("look for an installed rebalancer, whose state and pause hold too: %w", err)
	}
	executor := &plan.Executor{
		World: world, Evictor: kube.Evictor{Client: e.Client}, Store: store,
		Observer: progress{e.Progress}, Clock: clock.RealClock{}, Config: configuration,
	}
	configuration.Mode, configuration.Refreshes = api.Plan, 1
	status, err := executor.Step(ctx, true)
	if err != nil {
		return err
	}
	if status.Stop != "" {
		return fmt.Errorf("no pod moves (%s): %s", status.Stop, status.Why)
	}
	report.add(status)
	if confirmed, err := e.confirm(ctx, report); err != nil || !confirmed {
		return err
	}
	confirm(executor, status.Plan)
	err = run(ctx, refreshed{executor, refreshing(world, executor)}, len(report.Moves), e.Progress)
	if _, remembers := store.(*kube.Store); !remembers {
		e.Progress(fmt.Sprintf("The load shows these moves in full after %v. Wait so long before the next run: it does not know them",
			plan.WindowOf(world.cluster.Load)))
	}
	return err
}

// confirm reports whether to make the moves of the plan, if it has any.
func (e *Eviction) confirm(ctx context.Context, r *Report) (bool, error) {
	confirmed, err := e.Confirm(r)
	if err != nil || !confirmed || len(r.Moves) == 0 {
		return false, err
	}
	if ctx.Err() != nil { // the answer came after Ctrl-C
		return false, errors.New("stopped; no pod was moved")
	}
	return true, nil
}

// confirm lets the executor make the moves of the plan.
func confirm(e *plan.Executor, p *plan.Plan) {
	e.Config.Mode, e.Only = api.Evict, map[types.UID]bool{}
	for i := range p.Moves {
		e.Only[p.Moves[i].UID] = true
	}
}

// refreshed is an executor whose steps read the load.
type refreshed struct {
	executor
	step func(context.Context) (*plan.Status, error)
}

// Step implements executor.
func (r refreshed) Step(ctx context.Context, _ bool) (*plan.Status, error) { return r.step(ctx) }

// refreshing returns a step that first reads the load, if that is due.
func refreshing(world *World, e executor) func(context.Context) (*plan.Status, error) {
	refreshed := time.Time{}
	return func(ctx context.Context) (*plan.Status, error) {
		due := time.Since(refreshed) >= world.Interval()
		if due {
			refreshed = time.Now()
			if _, err := world.Refresh(ctx); err != nil {
				return nil, err
			}
		}
		return e.Step(ctx, due)
	}
}

// executor makes steps: a plan.Executor.
type executor interface {
	Step(ctx context.Context, refreshed bool) (*plan.Status, error)
	Settle(ctx context.Context) ([]*plan.Moving, error)
}

// run makes at most that many moves, and waits for their replacements. It shows a failed step and goes on, as the rebalancer does.
// It returns an error once maxFailures steps in a row have failed.
func run(ctx context.Context, e executor, most int, show func(line string)) error {
	ticker := time.NewTicker(evictInterval)
	defer ticker.Stop()
	r := &runner{executor: e, left: most, begins: true, known: map[types.UID]bool{}}
	var underWay []*plan.Moving
	for ctx.Err() == nil { // the ticker may fire together with Ctrl-C
		var err error
		underWay, err = r.step(ctx)
		switch {
		case err == nil && !r.begins && len(underWay) == 0:
			return nil
		case err != nil && ctx.Err() == nil && r.failures == maxFailures:
			return err
		case err != nil && ctx.Err() == nil:
			show("Trying again: " + text.Excerpt(err.Error()))
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	return fmt.Errorf("stopped between moves; %s without a ready replacement yet", text.Count(len(underWay), "pod"))
}

// runner makes the moves of one run.
type runner struct {
	executor
	// left is the number of moves that may still begin. begins is false once no further one can.
	left   int
	begins bool
	// failures counts the last steps that failed. known are the moves seen under way.
	failures int
	known    map[types.UID]bool
}

// step begins a move. Once none can begin, or after a failure, it only checks the moves under way.
func (r *runner) step(ctx context.Context) ([]*plan.Moving, error) {
	looks := !r.begins || r.failures > 0
	var underWay []*plan.Moving
	var err error
	if looks {
		underWay, err = r.Settle(ctx)
	} else {
		var status *plan.Status
		// A move that began is noted before the end.
		if status, err = r.Step(context.WithoutCancel(ctx), false); err == nil {
			underWay = status.UnderWay
			p := status.Plan // nil after many refusals
			r.begins = status.Stop == "" && (status.Began != nil || p == nil || len(p.Moves) > 0)
			if status.Began != nil {
				r.left--
			}
		}
	}
	if err != nil {
		r.failures++
		return nil, err
	}
	r.failures = 0
	for _, m := range underWay {
		if looks && !r.known[m.UID] { // its eviction got no answer
			r.left--
		}
		r.known[m.UID] = true
	}
	r.begins = r.begins && r.left > 0
	return underWay, nil
}

// progress shows each event as a line.
type progress struct{ show func(string) }

var _ plan.Observer = progress{}

// Began implements plan.Observer.
func (p progress) Began(m *plan.Moving, _ *corev1.Pod) {
	p.show(fmt.Sprintf("Evicted pod %s/%s from %s; waiting for its replacement on %s", m.Namespace, m.Pod, m.From, m.To))
}

// Refused implements plan.Observer.
func (p progress) Refused(m *plan.Move, _ *corev1.Pod, why string) {
	p.show(fmt.Sprintf("Pod %s/%s stays on %s: %s", m.Namespace, m.Pod, m.From, text.Excerpt(why)))
}

// Ended implements plan.Observer.
func (p progress) Ended(r *plan.Record) {
	switch {
	case r.Outcome == plan.Withdrawn:
		p.show(fmt.Sprintf("Pod %s/%s was not evicted", r.Namespace, r.Pod))
	case r.Outcome == plan.ScaledDown:
		p.show(fmt.Sprintf("Pod %s/%s gets no replacement: %s was scaled down", r.Namespace, r.Pod, text.Excerpt(r.Owner.String())))
	case r.Problem() != "":
		p.show(fmt.Sprintf("Pod %s/%s was moved, but %s", r.Namespace, r.Pod, r.Problem()))
	default:
		p.show(fmt.Sprintf("Pod %s/%s is ready on %s, in place of %s", r.Namespace, r.Replacement, r.Node, r.Pod))
	}
}

// HotMinutes implements plan.Observer.
func (p progress) HotMinutes(_, _ float64) {}

// Regretted implements plan.Observer.
func (p progress) Regretted(*plan.Record) {}

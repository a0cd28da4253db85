// Package replay compares scheduling policies on the same pods. It replays arrivals and usages in simulated time, and counts hot
// nodes. Cache, framework and plugins are the scheduler's own.
package replay

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/engine"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/report"
)

// Options select the pods and the policies.
type Options struct {
	Title    string
	Inputs   []*input.Input
	Policies []engine.Policy
	// Parallelism is the number of concurrent runs; 0 is GOMAXPROCS. It does not change the report.
	Parallelism int
	// Progress is called from several goroutines, one call at a time, with the completed share, in [0, 1]. It may be nil.
	Progress func(done float64)
}

// Replay replays each input with each policy. A failure, or the end of ctx, stops all.
func Replay(ctx context.Context, o Options) (*report.Report, error) {
	if len(o.Inputs) == 0 || len(o.Policies) == 0 {
		return nil, errors.New("nothing to replay: want at least one input and one policy")
	}
	runs := make([]report.Run, len(o.Inputs)*len(o.Policies)) // the policies of the first input first
	policies := engine.WithPowerModels(o.Policies)
	p := &progress{report: o.Progress, done: make([]float64, len(runs))}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(cmp.Or(o.Parallelism, runtime.GOMAXPROCS(0)))
	for i := range runs {
		group.Go(func() (err error) {
			in, policy := o.Inputs[i/len(o.Policies)], policies[i%len(o.Policies)]
			runs[i], err = engine.Run(ctx, in, policy, func(done float64) { p.set(i, done) })
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	r := o.newReport()
	for i := range runs {
		of := &r.Policies[i%len(o.Policies)]
		of.Runs = append(of.Runs, runs[i])
	}
	return r, nil
}

func (o *Options) newReport() *report.Report {
	first := o.Inputs[0]
	r := &report.Report{
		Title: o.Title, Nodes: len(first.Nodes), Pods: len(first.Pods), CountedSeconds: first.Counted.Seconds(),
		HotAbove: load.Hot, SevereAbove: report.SevereAbove,
	}
	for i := range first.Nodes {
		r.CPUCores += first.Nodes[i].Capacity.CPUMillis / 1000
	}
	for _, p := range o.Policies {
		r.Policies = append(r.Policies, report.PolicyReport{Name: p.Name})
	}
	return r
}

type progress struct {
	report func(done float64)

	mu   sync.Mutex
	done []float64
	sum  float64
}

func (p *progress) set(run int, done float64) {
	if p.report == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sum += done - p.done[run]
	p.done[run] = done
	p.report(p.sum / float64(len(p.done)))
}

// Runs returns the largest number of runs that All has at once.
func Runs(replays []Options, policies []engine.Policy) (n int) {
	for i := range replays {
		n = max(n, len(replays[i].Inputs)*len(policies))
	}
	return n
}

// All calls Replay for each of replays. It sets their Policies and Progress; progress must not be nil.
func All(ctx context.Context, replays []Options, policies []engine.Policy, progress func(done float64)) ([]*report.Report, error) {
	var inputs []*input.Input
	for i := range replays {
		inputs = append(inputs, replays[i].Inputs...)
	}
	if err := engine.Check(policies, inputs); err != nil {
		return nil, cluster.OptionErrorf("%w", err)
	}
	var reports []*report.Report
	for i, o := range replays {
		o.Policies = policies
		o.Progress = func(done float64) { progress((float64(i) + done) / float64(len(replays))) }
		r, err := Replay(ctx, o)
		if err != nil {
			return nil, err
		}
		reports = append(reports, r)
	}
	return reports, nil
}

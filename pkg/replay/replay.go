// Package replay says what scheduling policies make of the same pods: it replays arrivals and usages in simulated time, through
// the scheduler's own cache, framework and plugins, and counts how often nodes are hot.
package replay

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// Options say what to replay.
type Options struct {
	Title    string
	Inputs   []*Input
	Policies []Policy
	// Parallelism is the number of runs at a time; 0 is GOMAXPROCS. It does not change what they report.
	Parallelism int
	// Progress is called from any goroutine with the share that is done, in [0, 1]. It may be nil.
	Progress func(done float64)
}

// Replay replays each input by each policy. Once ctx is done it reports the inputs that all policies have completed; if there is
// none, the first input of the policies that have completed it.
func Replay(ctx context.Context, o Options) (*Report, error) {
	if len(o.Inputs) == 0 || len(o.Policies) == 0 {
		return nil, errors.New("nothing to replay: want at least one input and one policy")
	}
	type job struct{ policy, input int }
	jobs := make([]job, 0, len(o.Policies)*len(o.Inputs))
	for input := range o.Inputs {
		for policy := range o.Policies {
			jobs = append(jobs, job{policy, input})
		}
	}
	runs, failures := make([]Run, len(jobs)), make([]error, len(jobs))
	p := &progress{report: o.Progress, done: make([]float64, len(jobs))}
	workers := o.Parallelism
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var next atomic.Int64
	var wait sync.WaitGroup
	for range min(workers, len(jobs)) {
		wait.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(jobs); i = int(next.Add(1)) - 1 {
				j := jobs[i]
				runs[i], failures[i] = run(ctx, o.Inputs[j.input], o.Policies[j.policy], func(done float64) { p.set(i, done) })
				if failures[i] != nil && ctx.Err() == nil {
					cancel()
				}
			}
		})
	}
	wait.Wait()
	r := newReport(&o)
	for _, err := range failures {
		switch {
		case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
			r.Partial = true
		case err != nil:
			return nil, err
		}
	}
	add := func(input int, partial bool) {
		first := input * len(o.Policies)
		complete := !slices.ContainsFunc(failures[first:first+len(o.Policies)], func(err error) bool { return err != nil })
		for policy := range o.Policies {
			if complete || partial && failures[first+policy] == nil {
				r.Policies[policy].Runs = append(r.Policies[policy].Runs, runs[first+policy])
			}
		}
	}
	for input := range o.Inputs {
		add(input, false)
	}
	if len(r.Policies[0].Runs) == 0 {
		add(0, true)
	}
	return r, nil
}

// newReport returns the report without runs.
func newReport(o *Options) *Report {
	first := o.Inputs[0]
	r := &Report{
		Title: o.Title, Nodes: len(first.Nodes), Pods: len(first.Pods), Counted: first.Counted,
		HotAbove: HotAbove, SevereAbove: SevereAbove,
	}
	for i := range first.Nodes {
		r.CPUCores += first.Nodes[i].Capacity[load.CPU] / 1000
	}
	for _, p := range o.Policies {
		r.Policies = append(r.Policies, PolicyReport{Name: p.Name})
	}
	return r
}

// progress adds up what is done of all runs.
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

// schedulers compares the processor time that two schedulers take for a pod. Each runs as a process of its own beside etcd and the
// API server. They bind batches of pods at the same time, until the ratio is known well enough or the time is up.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/test/cluster/build"
	"github.com/plimsoll-scheduler/plimsoll/test/perf/compare"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Stdout, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "schedulers:", err)
		os.Exit(1)
	}
}

// comparison is what the flags ask for.
type comparison struct {
	// what is how the table calls it.
	what       string
	ours, base side
	workload   workload
	rule       compare.Rule
	rounds     int
	verbose    bool
	// cpuProfile is the file for a profile of the processor time; empty for none.
	cpuProfile string
}

func parse(args []string) (c comparison, err error) {
	flags := flag.NewFlagSet("schedulers", flag.ContinueOnError)
	ours := flags.String("profile", "recommended", "the profile to measure: "+profileNames())
	base := flags.String("base-profile", "stock", "the profile to compare it with")
	program := flags.String("program", "", "the program in bin/ to measure, if its profile reads load; kube-scheduler by default")
	baseProgram := flags.String("base-program", "", "the same for the base")
	burden := flags.Duration("burden", 0, "how much more processor time an attempt takes with the profile burdened")
	baseBurden := flags.Duration("base-burden", 0, "the same for the base")
	flags.IntVar(&c.workload.nodes, "nodes", 5000, "the number of nodes")
	flags.IntVar(&c.workload.podsPerNode, "pods-per-node", 20, "the number of pods that run on each node")
	flags.IntVar(&c.workload.batch, "batch", 200, "the number of pods that each scheduler binds in a round")
	flags.IntVar(&c.workload.replicas, "replicas", 10, "the number of pods of one workload, a part of a batch")
	flags.BoolVar(&c.workload.owned, "replica-sets", false, "pods have ReplicaSets; otherwise they are bare")
	flags.IntVar(&c.workload.rate, "rate", 0, "pods that arrive for each scheduler in a second; 0 means all of a round at once")
	flags.Float64Var(&c.rule.Within, "within", 0.02, "the half width of the 95 % interval at which the comparison ends")
	flags.DurationVar(&c.rule.Limit, "limit", 10*time.Minute, "the time after which it ends anyway")
	flags.IntVar(&c.rule.MinBlocks, "min-blocks", 6, "the least number of lives of the processes")
	flags.IntVar(&c.rounds, "rounds", 8, "the rounds in each life")
	flags.StringVar(&c.cpuProfile, "cpu-profile", "",
		"compare nothing, but write a profile of the measured scheduler's processor time to this file")
	flags.BoolVar(&c.verbose, "v", false, "print every round")
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	if c.workload.batch%c.workload.replicas != 0 {
		return c, fmt.Errorf("batch: %d must be a multiple of replicas, %d", c.workload.batch, c.workload.replicas)
	}
	for _, s := range []struct {
		side          *side
		name, profile string
		program       string
		burden        time.Duration
	}{{&c.ours, "ours", *ours, *program, *burden}, {&c.base, "base", *base, *baseProgram, *baseBurden}} {
		p, ok := profiles()[s.profile]
		if !ok {
			return c, fmt.Errorf("profile: %q is none; the profiles are %s", s.profile, profileNames())
		}
		if s.burden != 0 && !p.burdens() {
			return c, fmt.Errorf("burden: %s has no effect on the profile %q; only burdened has it", s.burden, s.profile)
		}
		p.burden = s.burden
		*s.side = side{name: s.name, program: s.program, profile: p}
		if s.program == "" || !p.readsLoad() {
			s.side.program = p.program()
		}
	}
	if *program != *baseProgram && *baseProgram != "" && *ours == *base && !c.ours.profile.readsLoad() {
		return c, fmt.Errorf("profile: %q does not read load, so %s would be compared with itself", *ours, c.ours.program)
	}
	c.what = fmt.Sprintf("%s over %s, %d nodes with %d pods", *ours, *base, c.workload.nodes, c.workload.podsPerNode)
	return c, nil
}

func run(ctx context.Context, out io.Writer, args []string) (err error) {
	c, err := parse(args)
	if err != nil {
		return err
	}
	builder, err := build.New(ctx, os.Stderr)
	if err != nil {
		return err
	}
	parts := []build.Part{
		build.Etcd(), build.KubeAPIServer(), build.KubeScheduler(), build.StockKubeScheduler(), build.IdleKubeScheduler(),
	}
	if err := builder.Build(ctx, parts...); err != nil {
		return err
	}
	b, err := newBench(ctx, builder.BinDir(), c.workload)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := b.close(); err == nil {
			err = closeErr
		}
	}()
	if c.cpuProfile != "" {
		return b.profile(ctx, c.ours, c.cpuProfile)
	}
	return c.compare(ctx, b, out)
}

// compare runs blocks until the rule ends it, and prints the ratios.
func (c comparison) compare(ctx context.Context, b *bench, out io.Writer) error {
	var all blocks
	for began := time.Now(); ; {
		if err := b.block(ctx, c.ours, c.base, c.rounds, &all); err != nil {
			return err
		}
		e, elapsed := compare.Of(all.costs), time.Since(began)
		if c.verbose {
			for i, p := range all.costs[len(all.costs)-1] {
				_, _ = fmt.Fprintf(out, "round %d: %.0f over %.0f µs\n", i, 1e6*p.Ours, 1e6*p.Base)
			}
			_, _ = fmt.Fprintf(out, "block %d, %.0f s: %.3f (%.3f to %.3f)\n", len(all.costs), elapsed.Seconds(), e.Ratio, e.Low, e.High)
		}
		if verdict := c.rule.Decide(e, len(all.costs), elapsed); verdict != compare.GoesOn {
			return c.print(out, e, &all, elapsed, verdict)
		}
	}
}

// print prints a line of the table.
func (c comparison) print(
	out io.Writer, cost compare.Estimate, all *blocks, elapsed time.Duration, verdict compare.Verdict,
) error {
	lives, seconds := len(all.costs), compare.Of(all.speeds)
	ratio := func(e compare.Estimate) string { return fmt.Sprintf("%.2f (%.2f to %.2f)", e.Ratio, e.Low, e.High) }
	speed := compare.Estimate{Ratio: 1 / seconds.Ratio, Low: 1 / seconds.High, High: 1 / seconds.Low}
	_, err := fmt.Fprintf(out, "| %s | %.3f (%.3f to %.3f), ± %.1f %%: %s | %s | %s | %s | %s | %s | %d in %.0f s: %s |\n", c.what,
		cost.Ratio, cost.Low, cost.High, 100*cost.HalfWidth(), c.rule.Finding(cost, lives),
		ratio(speed), ratio(compare.Of(all.slowest)), ratio(compare.Of(all.starts)), ratio(compare.Of(all.firsts)),
		ratio(compare.Of(all.memory)), lives*c.rounds, elapsed.Seconds(), verdict)
	return err
}

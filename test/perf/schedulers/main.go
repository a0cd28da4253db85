// schedulers compares the processor time that two schedulers take for a pod. Each runs as a process of its own beside etcd and the
// API server. They bind batches of pods at the same time, until the ratio is known well enough or the time is up.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/test/cluster/build"
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
	what string
	// sides are ours and the base.
	sides    [2]side
	workload workload
	rule     rule
	rounds   int
	// cpuProfile is the file for a profile of the processor time; empty for none.
	cpuProfile string
}

func parse(args []string) (c comparison, err error) {
	flags := flag.NewFlagSet("schedulers", flag.ContinueOnError)
	ours := flags.String("profile", "recommended", "the profile to measure: "+profileNames())
	base := flags.String("base-profile", "stock", "the profile to compare it with")
	program := flags.String("program", "kube-scheduler", "the program in bin/ to measure, unless its profile is stock")
	baseProgram := flags.String("base-program", "kube-scheduler", "the same for the base")
	flags.IntVar(&c.workload.nodes, "nodes", 5000, "the number of nodes")
	flags.IntVar(&c.workload.podsPerNode, "pods-per-node", 20, "the number of pods that run on each node")
	flags.IntVar(&c.workload.batch, "batch", 200, "the number of pods that each scheduler binds in a round")
	flags.BoolVar(&c.workload.owned, "replica-sets", false, "pods have ReplicaSets; otherwise they are bare")
	flags.BoolVar(&c.workload.strict, "do-not-schedule", false, "pods of ReplicaSets must spread over zones and hosts")
	flags.BoolVar(&c.workload.apart, "anti-affinity", false, "a third of the workloads has at most one pod on a host")
	flags.IntVar(&c.workload.rate, "rate", 0, "pods that arrive for each scheduler in a second; 0 means all of a round at once")
	flags.Float64Var(&c.rule.within, "within", 0.02, "the half width of the 95 % interval at which the comparison ends")
	flags.DurationVar(&c.rule.limit, "limit", 10*time.Minute, "the time after which it ends anyway")
	flags.IntVar(&c.rounds, "rounds", 8, "the rounds in each life of the processes")
	flags.StringVar(&c.cpuProfile, "cpu-profile", "",
		"compare nothing, but write a profile of the measured scheduler's processor time to this file")
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	if c.workload.batch%replicas != 0 {
		return c, fmt.Errorf("batch: %d must be a multiple of %d", c.workload.batch, replicas)
	}
	for i, s := range [2]struct{ name, profile, program string }{{"ours", *ours, *program}, {"base", *base, *baseProgram}} {
		p, ok := profiles()[s.profile]
		if !ok {
			return c, fmt.Errorf("profile: %q is none; the profiles are %s", s.profile, profileNames())
		}
		if p.stock {
			s.program = "stock-kube-scheduler"
		}
		c.sides[i] = side{name: s.name, program: s.program, profile: p}
	}
	c.what = fmt.Sprintf("%s over %s, %d nodes with %d pods", *ours, *base, c.workload.nodes, c.workload.podsPerNode)
	return c, nil
}

func run(ctx context.Context, out io.Writer, args []string) (err error) {
	c, err := parse(args)
	if err != nil {
		return err
	}
	binDir, err := build.Programs(ctx, os.Stderr, "etcd", "kube-apiserver", "kube-scheduler", "stock-kube-scheduler")
	if err != nil {
		return err
	}
	b, err := newBench(ctx, binDir, c.workload)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if c.cpuProfile != "" {
		return b.profile(ctx, c.sides[0], c.cpuProfile)
	}
	return c.compare(ctx, b, out)
}

// compare measures lives until the rule ends it, and prints a line of the table.
func (c comparison) compare(ctx context.Context, b *bench, out io.Writer) error {
	var costs, times, memory, starts, slowest []pair
	for began := time.Now(); ; {
		l, err := b.life(ctx, c.sides, c.rounds)
		if err != nil {
			return err
		}
		costs, times, memory = append(costs, l.cost), append(times, l.time), append(memory, l.memory)
		starts, slowest = append(starts, l.start), append(slowest, l.slowest)
		e, elapsed := estimateOf(costs), time.Since(began)
		fmt.Fprintf(os.Stderr, "life %d: processor time per pod %.2f ms, of the base %.2f ms; p99 of an attempt %.1f ms and %.1f ms\n",
			len(costs), 1e3*l.cost.ours, 1e3*l.cost.base, 1e3*l.slowest.ours, 1e3*l.slowest.base)
		if verdict := c.rule.verdict(e, len(costs), elapsed); verdict != "" {
			_, err := fmt.Fprintf(out, "| %s | %.3f (%.3f to %.3f), ± %.1f %%: %s | %s | %s | %s | %s | %d in %.0f s: %s |\n", c.what,
				e.ratio, e.low, e.high, 100*e.halfWidth(), c.rule.finding(e, len(costs)),
				estimateOf(times).inverse(), estimateOf(slowest), estimateOf(memory), estimateOf(starts),
				len(costs)*c.rounds, elapsed.Seconds(), verdict)
			return err
		}
	}
}

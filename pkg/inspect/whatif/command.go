package whatif

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/kubectl"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/output"
)

type whatIfOptions struct {
	cluster  *kubectl.Flags
	output   output.Flags
	file     string
	replicas int
	timeout  time.Duration
	top      int
	scenario Scenario
}

// Command returns the command what-if.
func Command() *cobra.Command {
	o := &whatIfOptions{cluster: kubectl.NewFlags()}
	command := &cobra.Command{
		Use: "what-if [-f FILE [--replicas N | --fewer N]] [--drain NODE] [--evict-all-in NAMESPACE] [--add-nodes N --like NODE] " +
			"[--pending]",
		Short:   "Show where pods would go, and what the nodes' load would become",
		Long:    whatIfHelp,
		Example: whatIfExamples,
		Args:    kubectl.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	flags := command.Flags()
	o.cluster.AddTo(flags)
	o.output.AddTo(flags)
	flags.StringVarP(&o.file, "filename", "f", "", "file with workloads whose pods to place; - is standard input")
	flags.IntVar(&o.replicas, "replicas", 0, "number of pods of the workload; replaces the file's")
	flags.IntVar(&o.scenario.Fewer, "fewer", 0, "number of running pods of the workload to remove, in place of placing its pods")
	flags.StringSliceVar(&o.scenario.Drain, "drain", nil, "node to drain; may be repeated")
	flags.StringSliceVar(&o.scenario.EvictAllIn, "evict-all-in", nil, "namespace whose pods are evicted; may be repeated")
	flags.IntVar(&o.scenario.AddNodes, "add-nodes", 0, "number of nodes to add")
	flags.StringVar(&o.scenario.Like, "like", "", "node to copy for --add-nodes")
	flags.BoolVar(&o.scenario.Pending, "pending", false,
		"also place pending pods of the cluster; the default if --add-nodes is the only change")
	flags.StringVar(&o.scenario.SchedulerName, "scheduler-name", "",
		"profile that places all pods; replaces spec.schedulerName of the pods")
	flags.IntVar(&o.top, "top", 20, "number of nodes to list; 0 lists all")
	flags.DurationVar(&o.timeout, "timeout", 5*time.Minute,
		"time after which the command gives up; zero means no limit")
	return command
}

func (o *whatIfOptions) validate(flags *pflag.FlagSet) error {
	s := &o.scenario
	for _, name := range []string{"filename", "like", "scheduler-name"} {
		if f := flags.Lookup(name); f.Changed && f.Value.String() == "" {
			return fmt.Errorf("--%s: it is empty; write a value or leave it out", name)
		}
	}
	if err := errors.Join(o.validateCombination(flags), o.validateFewer(flags)); err != nil {
		return err
	}
	changes := o.file != "" || len(s.Drain) > 0 || len(s.EvictAllIn) > 0
	if !changes && s.AddNodes == 0 && !s.Pending {
		return errors.New("nothing is asked: write --filename, --drain, --evict-all-in, --add-nodes or --pending")
	}
	if !changes && !flags.Changed("pending") {
		s.Pending = true
	}
	if flags.Changed("replicas") {
		s.Replicas = &o.replicas
	}
	return o.output.Validate()
}

func (o *whatIfOptions) validateCombination(flags *pflag.FlagSet) error {
	s := &o.scenario
	switch {
	case o.file == "" && flags.Changed("replicas"):
		return errors.New("--replicas: only with --filename")
	case o.replicas < 0 || o.replicas > MaxPods:
		return fmt.Errorf("--replicas: %d; write from 0 to %d", o.replicas, MaxPods)
	case flags.Changed("add-nodes") && (s.AddNodes < 1 || s.AddNodes > MaxNodes):
		return fmt.Errorf("--add-nodes: %d; write from 1 to %d", s.AddNodes, MaxNodes)
	case o.top < 0:
		return fmt.Errorf("--top: %d; write 0 for all nodes, or more", o.top)
	case o.timeout < 0:
		return fmt.Errorf("--timeout: %v; write a duration such as 10m, or 0 for no limit", o.timeout)
	case (s.AddNodes > 0) != (s.Like != ""):
		return errors.New("--add-nodes and --like: write both, such as --add-nodes 2 --like worker-1")
	}
	return nil
}

func (o *whatIfOptions) validateFewer(flags *pflag.FlagSet) error {
	switch fewer := o.scenario.Fewer; {
	case !flags.Changed("fewer"):
		return nil
	case o.file == "" || flags.Changed("replicas"):
		return errors.New("--fewer: only with --filename, and without --replicas")
	case fewer < 1 || fewer > MaxPods:
		return fmt.Errorf("--fewer: %d; write from 1 to %d", fewer, MaxPods)
	}
	return nil
}

func (o *whatIfOptions) run(cmd *cobra.Command) error {
	if err := o.validate(cmd.Flags()); err != nil {
		return cluster.OptionErrorf("%w", err)
	}
	connection, err := o.cluster.Connect(cmd)
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
	}
	result, err := Run(ctx, connection, Request{
		Configuration: o.cluster.Configuration, Source: o.cluster.Source, Scenario: o.scenario, File: o.file, Stdin: cmd.InOrStdin(),
		Found: kubectl.FoundBy(cmd, connection),
	})
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return fmt.Errorf("not done within --timeout %v; write fewer --replicas, a longer --timeout, or --timeout 0 for no limit: %w",
				o.timeout, err)
		}
		return err
	}
	result.Top = o.top
	if err := o.output.Print(cmd, result, result.Print); err != nil || !result.HasFindings() {
		return err
	}
	return output.ErrProblems
}

func (*Report) JSONKind() string { return "WhatIf" }

const whatIfHelp = `Places pods in a copy of the cluster in memory, by the scheduler's own code and configuration. Shows where
they go, the load of each node, and the nodes that cross their load line. Says why other pods do not fit.
Nothing is written to the cluster.

You can combine changes. They are made in this order:
  1. --add-nodes adds copies of a node, with its labels, taints, DaemonSet pods and static pods.
  2. --drain cordons nodes and evicts their pods. --evict-all-in evicts all pods of namespaces. DaemonSet pods
     and static pods stay. PodDisruptionBudgets are reported, and delay no eviction.
  3. Pods are placed one after the other, higher priority first. Of one priority, evicted ones come first, as
     their owners recreate them, then waiting ones (--pending), then those of -f. -f takes Pods, Deployments, ReplicaSets,
     ReplicationControllers, StatefulSets, Jobs, CronJobs, Lists of them, and several documents. Its pods are placed
     beside running pods. Preempted pods are placed again. --fewer removes running pods of the workload,
     in the order of its controller. Of a pod group, all pods are placed for which there is room, or none below its minimum.

The result is what the scheduler would do if all of this happened now, at once:
  - No time passes. The expected usage of a placed pod is pending on its node.
  - The usage of evicted pods is subtracted from the measured load of their nodes, as after a whole window. It
    is measured by Prometheus or metrics-server, else estimated. The scheduler itself counts it until the window
    has passed. Quantiles (statistic P95 or Max) stay.
  - New nodes count as measured and idle, plus the expected usage of DaemonSet pods and static pods. The
    scheduler itself uses their requests until they are measured.
  - Pods of a scheduler without a profile are placed as the stock scheduler does. --scheduler-name places all pods
    by one profile: those of -f, evicted, waiting and preempted.
  - Webhooks and quotas are not called. No volumes are provisioned, and no nodes except those of --add-nodes.

CPU-LINE and MEM-LINE are the load line of the profile that places the pods, CPU-TARGET and MEM-TARGET its target.

Exit codes: 0 all pods fit, 1 some do not or are lost, 2 unknown. Evicted pods without a
controller are lost.`

const whatIfExamples = `  # Do 40 replicas fit, and where?
  kubectl plimsoll what-if -f deployment.yaml --replicas 40

  # Which nodes get room by 10 pods fewer?
  kubectl plimsoll what-if -f deployment.yaml --fewer 10

  # Can these nodes be drained, or removed?
  kubectl plimsoll what-if --drain worker-3,worker-4

  # How many of the waiting pods would two more nodes take?
  kubectl plimsoll what-if --add-nodes 2 --like worker-1

  # The same pods by a new configuration
  kubectl plimsoll what-if -f deployment.yaml --replicas 40 --config new.yaml

  # Where would the pods of a namespace go, if this profile placed them in place of their scheduler?
  kubectl plimsoll what-if --evict-all-in shop --scheduler-name plimsoll

  # Where would the pods of a namespace go by today's load?
  kubectl plimsoll what-if --evict-all-in batch -o json | jq '.outcomes[0].placements'`

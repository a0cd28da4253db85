// Package replay compares scheduling policies on the same pods. It replays arrivals and usages in simulated time, and counts hot
// nodes. Cache, framework and plugins are the scheduler's own.
package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/kubectl"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/output"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/engine"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/generate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/history"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/report"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

// Options select the pods and the policies.
type Options struct {
	Title    string
	Inputs   []*input.Input
	Policies []engine.Policy
	// Parallelism is the number of concurrent runs; 0 is GOMAXPROCS. It does not change the report.
	Parallelism int
}

// Replay replays each input with each policy. A failure, or the end of ctx, stops all.
func Replay(ctx context.Context, o Options) (*report.Report, error) {
	if len(o.Inputs) == 0 || len(o.Policies) == 0 {
		return nil, errors.New("nothing to replay: want at least one input and one policy")
	}
	runs := make([]report.Run, len(o.Inputs)*len(o.Policies)) // the policies of the first input first
	policies := engine.WithPowerModels(o.Policies)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(cmp.Or(o.Parallelism, runtime.GOMAXPROCS(0)))
	for i := range runs {
		group.Go(func() (err error) {
			in, policy := o.Inputs[i/len(o.Policies)], policies[i%len(o.Policies)]
			runs[i], err = engine.Run(ctx, in, policy)
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
	if after5m, ok := input.Autocorrelation(o.Inputs); ok {
		r.Autocorrelation = &report.Autocorrelation{FiveMinutes: after5m}
	}
	for i := range first.Nodes {
		r.CPUCores += first.Nodes[i].Capacity.CPUMillis / 1000
	}
	for _, p := range o.Policies {
		r.Policies = append(r.Policies, report.PolicyReport{Name: p.Name})
	}
	return r
}

// Command returns the command replay. Policies may end in the name of a mover, of which there is one at most.
func Command(movers ...sim.MoverKind) *cobra.Command {
	s, format := &Selection{}, &output.Flags{}
	moves, suffix := "", ""
	for _, mover := range movers {
		s.Moves.Kind = mover
		suffix = "; +" + mover.Name + " moves pods"
		moves = fmt.Sprintf(`
To move pods off hot nodes too, append +%[1]s to a policy, or to a schedulerName of --config, such as
plimsoll+%[1]s. An evicted pod still uses its node for --termination. Its replacement runs --startup after that.
`, mover.Name)
	}
	command := &cobra.Command{
		Use:   "replay",
		Short: "Compare scheduling policies on the same pods",
		Long: `Replays a day of pods in simulated time, once per policy, and counts hot nodes. The scheduler's own code places the pods,
with the profiles of your configuration. Their usage is the same for all policies.

By default, pods are generated: bursts of replicas of some 1,650 workloads on 100 nodes. CPU usage follows traces of machines,
generated like those of PlanetLab; --traces reads real ones. Equal seeds give equal pods.

Policies beside your own:
  stock       the stock scheduler
  plimsoll    the profile of Plimsoll's chart; left out by default if --config names yours
  clairvoyant knows the future usage of placed pods: a bound for real policies
` + moves + `
To replay a cluster's history, use --prometheus. To replay a file of --save, use --load.

A node is hot while its pods demand more than 80 % of its CPU, and severely hot above 95 %.`,
		Example: `  # The stock scheduler and Plimsoll's profile, on three generated days
  kubectl plimsoll replay --seeds 3

  # Your profiles too, on real traces
  kubectl plimsoll replay --config scheduler.yaml --traces ./traces

  # Your profiles on the last day of your cluster
  kubectl plimsoll replay --config scheduler.yaml --prometheus http://localhost:9090 --since 24h

  # The same as a file to share
  kubectl plimsoll replay --prometheus http://localhost:9090 --save day.jsonl.gz`,
		Args: kubectl.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runReplay(cmd, s, format)
		},
	}
	flags := command.Flags()
	flags.StringSliceVar(&s.Configs, "config", nil,
		"KubeSchedulerConfiguration with profiles to compare, named by schedulerName; may be repeated")
	flags.StringSliceVar(&s.Policies, "policies", engine.BuiltinPolicies(),
		"policies to compare with: "+strings.Join(engine.BuiltinPolicies(), ", ")+suffix)
	s.Moves.AddFlags(flags)
	flags.StringVar(&s.Scenario, "scenario", "base",
		"generated pods: "+strings.Join(generate.ScenarioNames(), ", ")+"; base has a CPU demand of 44 % of capacity")
	flags.StringVar(&s.Traces, "traces", "",
		"folder of CPU traces, *.csv or *.csv.gz: a file per day, a row per machine, 288 utilizations in percent")
	flags.BoolVar(&s.Consecutive, "consecutive", false,
		"the files of --traces are consecutive days of the same machines: one run, whose first day is not counted")
	flags.IntVar(&s.Seeds, "seeds", 1, "number of seeds, for each day; of a saved or read day, they only break ties")
	flags.IntVar(&s.Nodes, "nodes", 100, "number of nodes; the number of pods is proportional")
	flags.StringVar(&s.Load, "load", "", "file of --save to replay")
	flags.StringVar(&s.Save, "save", "", "file to save the pods to, without a replay: JSON Lines, gzipped if its name ends in .gz")
	flags.StringVar(&s.Prometheus, "prometheus", "",
		"http(s) URL of a Prometheus with metrics of cAdvisor and kube-state-metrics: replays its cluster")
	flags.DurationVar(&s.Since, "since", 24*time.Hour,
		fmt.Sprintf("age of the start of the cluster's history, from %v to %v", history.MinSince, history.MaxSince))
	flags.StringVar(&s.TokenFile, "prometheus-token-file", "", "file with a bearer token for Prometheus")
	flags.StringVar(&s.CAFile, "prometheus-ca-file", "", "PEM file of CAs for Prometheus (default: the system's)")
	flags.StringVar(&s.HTTPConfigFile, "prometheus-http-config-file", "",
		"file of Prometheus' HTTP client configuration, in place of the two files above")
	format.AddTo(flags)
	return command
}

func runReplay(cmd *cobra.Command, s *Selection, format *output.Flags) error {
	if err := errors.Join(format.Validate(), s.Validate(cmd.Flags().Changed)); err != nil {
		return err
	}
	if len(s.Configs) > 0 && !cmd.Flags().Changed("policies") {
		s.Policies = []string{report.Stock, report.Clairvoyant}
	}
	policies, err := s.ReadPolicies()
	if err != nil {
		return err
	}
	if err := s.CheckWritable(); err != nil {
		return err
	}
	o, err := s.ReadInputs(cmd.Context(), func(missing string) { _, _ = fmt.Fprintln(cmd.ErrOrStderr(), "Missing:", missing) })
	if err != nil {
		return err
	}
	if s.Save != "" {
		return s.SaveInput(o)
	}
	// A run uses one processor. Others would only wake up, for a fifth more processor time.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(min(runtime.GOMAXPROCS(0), len(o.Inputs)*len(policies))))
	if terminal.StyleOf(cmd.ErrOrStderr()).Width > 0 {
		output.Lines(cmd.ErrOrStderr(), "Replaying. This can take minutes.")
	}
	o.Policies = policies
	r, err := Replay(cmd.Context(), o)
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted")
	}
	if err != nil {
		return err
	}
	result := &report.Result{Reports: []*report.Report{r}}
	return format.Print(cmd, result, result.Print)
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/plimsoll-scheduler/plimsoll/pkg/replay"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/html"
)

// replayOptions are the flags of replay.
type replayOptions struct {
	configs   []string
	policies  []string
	scenario  string
	traces    string
	load      string
	history   historyOptions
	save      string
	hashNames bool
	seeds     int
	nodes     int
	output    string
	html      string
}

// Bounds of flags.
const (
	maxSeeds = 1000
	maxNodes = 10_000
)

// errInterrupted is returned once what there is has been written.
var errInterrupted = errors.New("interrupted: only days that all policies completed are reported; if there is none, the first day of the policies that completed it")

func newReplayCommand() *cobra.Command {
	o := &replayOptions{}
	command := &cobra.Command{
		Use:   "replay",
		Short: "Compare scheduling policies on the same pods",
		Long: `Replays a day of pods in simulated time, once for each policy, and says how often nodes were hot. Pods are placed by the scheduler's
own code, with the profiles of your configuration; what they then use is the same for all policies.

Pods are generated: bursts of replicas of some 1,650 workloads on 100 nodes, whose CPU usage follows the traces of machines. The traces
are generated too, after those of PlanetLab's machines, unless you give a folder of real ones. Equal seeds give equal pods.

Policies beside your own: stock is the stock scheduler, most-allocated the stock scheduler that packs by requests, random takes any node
with room. clairvoyant knows what all placed pods will use until they end, but no pod that is still to come: a policy that cannot see the future
will hardly do better.

In place of generated pods, --prometheus replays the history of a cluster, and --load a file that --save wrote.

A node is hot while its pods want more than 80 % of its CPU, and severely hot above 95 %.`,
		Example: `  # Stock scheduler and clairvoyant, on three generated days
  kubectl plimsoll replay --seeds 3

  # Your profiles beside them, on real traces, with a page to look at
  kubectl plimsoll replay --config scheduler.yaml --traces ./traces --html report.html

  # Your profiles on what the pods of your cluster did in the last day
  kubectl plimsoll replay --config scheduler.yaml --prometheus http://localhost:9090 --since 24h

  # The same in a file that you can share
  kubectl plimsoll replay --prometheus http://localhost:9090 --save day.jsonl.gz --hash-names

  # At high and low load, and where no workload comes twice
  kubectl plimsoll replay --config scheduler.yaml --scenario all -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.NoArgs(cmd, args); err != nil {
				return usageError{err}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	flags := command.Flags()
	flags.StringSliceVar(&o.configs, "config", nil, "KubeSchedulerConfiguration whose profiles are compared, by schedulerName; may be repeated")
	flags.StringSliceVar(&o.policies, "policies", []string{replay.Stock, replay.Clairvoyant},
		"policies to compare with: "+strings.Join(replay.BuiltinPolicies(), ", "))
	flags.StringVar(&o.scenario, "scenario", "base",
		"base (CPU demand 44 % of capacity), high (54 %), low (24 %), new (no workload comes twice), or all of them")
	flags.StringVar(&o.traces, "traces", "",
		"folder of CPU traces, *.csv or *.csv.gz: a file a day, a row a machine, 288 utilizations in percent; without it traces are generated")
	flags.IntVar(&o.seeds, "seeds", 1, "number of seeds, for each day of traces")
	flags.IntVar(&o.nodes, "nodes", 100, "number of nodes; pods grow with it")
	flags.StringVar(&o.load, "load", "", "file to replay, as --save writes it, in place of generated pods")
	flags.StringVar(&o.save, "save", "", "file to save the pods to, JSON Lines, gzipped if its name ends in .gz; nothing is replayed")
	o.history.addFlags(flags)
	flags.BoolVar(&o.hashNames, "hash-names", false, "save hashes in place of names")
	flags.StringVarP(&o.output, "output", "o", "table", "table or json")
	flags.StringVar(&o.html, "html", "", "file to write a page with charts to")
	return command
}

// validate checks the flags.
func (o *replayOptions) validate(flags *pflag.FlagSet) error {
	if err := o.withoutEffect(flags); err != nil {
		return err
	}
	switch {
	case o.output != "table" && o.output != "json":
		return fmt.Errorf("--output: %q; write table or json", o.output)
	case o.seeds < 1 || o.seeds > maxSeeds:
		return fmt.Errorf("--seeds: %d; write from 1 to %d", o.seeds, maxSeeds)
	case o.nodes < 1 || o.nodes > maxNodes:
		return fmt.Errorf("--nodes: %d; write from 1 to %d", o.nodes, maxNodes)
	case o.html != "" && o.scenario == "all":
		return errors.New("--html: a page shows one scenario; choose one with --scenario")
	case o.hashNames && o.save == "":
		return errors.New("--hash-names: only with --save")
	}
	return o.history.validate()
}

// withoutEffect returns an error for a flag that is given and would have no effect beside the others.
func (o *replayOptions) withoutEffect(flags *pflag.FlagSet) error {
	for _, name := range []string{"load", "prometheus", "traces", "save", "html"} {
		if f := flags.Lookup(name); f.Changed && f.Value.String() == "" {
			return fmt.Errorf("--%s: it is empty; write a value or leave it out", name)
		}
	}
	for _, rule := range []struct {
		applies bool
		why     string
		flags   []string
	}{
		{o.load != "", "--load replays the pods of a file", []string{"prometheus", "scenario", "traces", "seeds", "nodes"}},
		{o.history.address != "", "--prometheus replays the history of a cluster", []string{"scenario", "traces", "seeds", "nodes"}},
		{o.history.address == "", "--prometheus is not given", []string{"since", "prometheus-token-file", "prometheus-ca-file"}},
		{o.save != "", "--save replays nothing", []string{"config", "policies", "output", "html"}},
	} {
		for _, name := range rule.flags {
			if rule.applies && flags.Changed(name) {
				return fmt.Errorf("--%s has no effect, for %s; leave out one, or add what is missing", name, rule.why)
			}
		}
	}
	return nil
}

func (o *replayOptions) run(cmd *cobra.Command) error {
	if err := o.validate(cmd.Flags()); err != nil {
		return usageError{err}
	}
	policies, err := o.readPolicies(cmd.Context())
	if err != nil {
		return usageError{err}
	}
	for _, f := range []struct{ flag, file string }{{"--html", o.html}, {"--save", o.save}} {
		if err := checkWritable(f.file); err != nil {
			return usageError{fmt.Errorf("%s: %w", f.flag, err)}
		}
	}
	replays, err := o.inputs(cmd)
	if err != nil {
		return err
	}
	if o.save != "" {
		return o.saveInput(replays)
	}
	var reports []*replay.Report
	bar := newProgressBar(cmd.ErrOrStderr())
	interrupted := false
	for i, r := range replays {
		r.Policies = policies
		r.Progress = func(done float64) { bar.set((float64(i) + done) / float64(len(replays))) }
		report, err := replay.Replay(cmd.Context(), r)
		if err != nil {
			bar.clear()
			return err
		}
		reports = append(reports, report)
		if interrupted = report.Partial; interrupted {
			break
		}
	}
	bar.clear()
	if err := o.write(cmd.OutOrStdout(), reports); err != nil {
		return err
	}
	if interrupted {
		return errInterrupted
	}
	return nil
}

// saveInput saves what would be replayed.
func (o *replayOptions) saveInput(replays []replay.Options) error {
	if len(replays) != 1 || len(replays[0].Inputs) != 1 {
		return usageError{errors.New("--save: a file holds one day; choose one scenario and seed, and a folder with one file of traces")}
	}
	input := replays[0].Inputs[0]
	if o.hashNames {
		input.HashNames()
	}
	return replay.Save(o.save, input)
}

func (o *replayOptions) readPolicies(ctx context.Context) ([]replay.Policy, error) {
	var policies []replay.Policy
	for _, name := range o.policies {
		p, err := replay.BuiltinPolicy(name)
		if err != nil {
			return nil, fmt.Errorf("--policies: %w", err)
		}
		policies = append(policies, p)
	}
	for _, file := range o.configs {
		read, err := replay.ReadPolicies(ctx, file)
		if err != nil {
			return nil, fmt.Errorf("--config: %w", err)
		}
		policies = append(policies, read...)
	}
	if len(policies) == 0 {
		return nil, errors.New("--policies: it is empty; name a policy, or give profiles with --config")
	}
	for i, p := range policies {
		if slices.ContainsFunc(policies[:i], func(other replay.Policy) bool { return other.Name == p.Name }) {
			return nil, fmt.Errorf("two policies are called %q: give each profile a schedulerName of its own", p.Name)
		}
	}
	return policies, nil
}

// inputs returns what to replay, by scenario.
func (o *replayOptions) inputs(cmd *cobra.Command) ([]replay.Options, error) {
	if o.history.address != "" {
		input, err := o.history.read(cmd.Context(), cmd.ErrOrStderr())
		if err != nil {
			return nil, fmt.Errorf("--prometheus: %w", err)
		}
		return []replay.Options{{Title: input.Name, Inputs: []*replay.Input{input}}}, nil
	}
	if o.load != "" {
		input, err := replay.Load(o.load)
		if err != nil {
			return nil, usageError{fmt.Errorf("--load: %w", err)}
		}
		return []replay.Options{{Title: input.Name, Inputs: []*replay.Input{input}}}, nil
	}
	scenarios := replay.Scenarios()
	if o.scenario != "all" {
		i := slices.IndexFunc(scenarios, func(s replay.Scenario) bool { return s.Name == o.scenario })
		if i < 0 {
			return nil, usageError{fmt.Errorf("--scenario: %q; write base, high, low, new or all", o.scenario)}
		}
		scenarios = scenarios[i : i+1]
	}
	days := func(seed uint64) []*replay.Traces { return []*replay.Traces{replay.Synthetic(seed)} }
	if o.traces != "" {
		read, err := replay.ReadTraces(o.traces)
		if err != nil {
			return nil, usageError{fmt.Errorf("--traces: %w", err)}
		}
		days = func(uint64) []*replay.Traces { return read }
	}
	var all []replay.Options
	for _, scenario := range scenarios {
		options := replay.Options{Title: scenario.Name}
		for seed := uint64(1); seed <= uint64(o.seeds); seed++ {
			for _, traces := range days(seed) {
				input, err := replay.Generate(traces, scenario, o.nodes, seed)
				if err != nil {
					return nil, usageError{fmt.Errorf("--traces: %w", err)}
				}
				options.Inputs = append(options.Inputs, input)
			}
		}
		all = append(all, options)
	}
	return all, nil
}

// write writes the reports, then the page.
func (o *replayOptions) write(out io.Writer, reports []*replay.Report) error {
	if err := o.writeReports(out, reports); err != nil || o.html == "" {
		return err
	}
	if err := writePage(o.html, reports[0]); err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	return nil
}

func (o *replayOptions) writeReports(out io.Writer, reports []*replay.Report) error {
	if o.output == "json" {
		return json.NewEncoder(out).Encode(reports)
	}
	for i, report := range reports {
		if i > 0 {
			fmt.Fprintln(out)
		}
		if err := writeTable(out, report); err != nil {
			return err
		}
	}
	return nil
}

// checkWritable finds out before a long replay whether the file can be written. It changes no file, and leaves none behind.
func checkWritable(file string) error {
	if file == "" {
		return nil
	}
	_, missing := os.Stat(file)
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	err = f.Close()
	if missing != nil {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}

func writePage(file string, report *replay.Report) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(html.Write(f, report), f.Close())
}

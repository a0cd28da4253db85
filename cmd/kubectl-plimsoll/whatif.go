package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	componentversion "k8s.io/component-base/version"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/manifest"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/whatif"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

// whatIfOptions are the flags of what-if.
type whatIfOptions struct {
	cluster     *clusterFlags
	output      outputFlags
	file        string
	replicas    int
	profileFrom string
	scenario    whatif.Scenario
}

func newWhatIfCommand() *cobra.Command {
	o := &whatIfOptions{cluster: newClusterFlags()}
	command := &cobra.Command{
		Use:   "what-if [-f FILE [--replicas N]] [--drain NODE] [--evict-all-in NAMESPACE] [--add-nodes N --like NODE] [--pending]",
		Short: "Show where pods would go, and what the nodes' load would become",
		Long: `Places pods in a copy of the cluster in memory, by the scheduler's own code and with its configuration, and shows where they go, what
each node's load becomes, which nodes pass their load line, and which pods do not fit and why. Nothing is written to the cluster.

Changes can be combined. They are made in this order:
  1. --add-nodes: copies of a node are added, with its labels, taints, DaemonSet and static pods.
  2. --drain: nodes are cordoned, and their pods evicted. --evict-all-in: all pods of the namespaces are evicted. Pods of DaemonSets
     and static pods stay. PodDisruptionBudgets are reported, but hold nothing up.
  3. Pods are placed one after the other, those of higher priority first: evicted ones as their owners create them again, then waiting
     ones (--pending), then those of -f. -f takes Pods, Deployments, ReplicaSets, StatefulSets, Jobs, Lists of them, and several
     documents; its pods are placed beside those that run already. Where a pod preempts others, those are placed again.

The result is what the scheduler would do if all of this happened now, at once:
  - No time passes. A placed pod is pending on its node with its expected usage, as it is in the first moment after it is bound.
  - What evicted pods use, as far as the window covers it, is taken off the measured load of their nodes, as if they were gone for a
    whole window: by the usage of pods that Prometheus or metrics-server has measured, else as it is estimated. The scheduler itself
    counts them there until the window has passed. Quantiles (statistic P95 or Max) are left as they are measured.
  - New nodes count as measured and idle, plus what their DaemonSet and static pods are expected to use. The scheduler itself judges
    them by requests until they are measured.
  - Pods of a scheduler that the configuration has no profile for are placed as the stock scheduler does.
  - Webhooks and quotas are not asked, and nothing is provisioned: no volume, and no node but those of --add-nodes.

LINE is the load line of LoadThreshold, or the target of TargetLoadPacking or PredictedPeak, in the profile that places the pods.

The exit code is 0 if all pods fit, 1 if some do not or if pods are lost because they have no controller, and 2 if that could not be
found out.`,
		Example: `  # Do 40 replicas fit, and where?
  kubectl plimsoll what-if -f deployment.yaml --replicas 40

  # Can a node be drained?
  kubectl plimsoll what-if --drain worker-3

  # How many of the waiting pods would two nodes more take?
  kubectl plimsoll what-if --add-nodes 2 --like worker-1

  # The same pods by your configuration as it is, and by a new one
  kubectl plimsoll what-if -f deployment.yaml --replicas 40 --profile-from new.yaml

  # How would the pods of a namespace be placed by today's load?
  kubectl plimsoll what-if --evict-all-in batch -o json | jq '.outcomes[0].placements'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.NoArgs(cmd, args); err != nil {
				return usageError{err}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	flags := command.Flags()
	o.cluster.addTo(flags)
	o.output.addTo(flags)
	flags.StringVarP(&o.file, "filename", "f", "", "file with the workloads whose pods are placed; - is standard input")
	flags.IntVar(&o.replicas, "replicas", 0, "number of pods of the workload, in place of the file's")
	flags.StringSliceVar(&o.scenario.Drain, "drain", nil, "node to drain; may be repeated")
	flags.StringSliceVar(&o.scenario.EvictAllIn, "evict-all-in", nil, "namespace whose pods are evicted; may be repeated")
	flags.IntVar(&o.scenario.AddNodes, "add-nodes", 0, "number of nodes to add")
	flags.StringVar(&o.scenario.Like, "like", "", "node that added nodes are copies of")
	flags.BoolVar(&o.scenario.Pending, "pending", false, "place the pods that wait in the cluster, too; the default if nodes are added and no other pods are placed")
	flags.StringVar(&o.scenario.SchedulerName, "scheduler-name", "", "profile that places the pods of the file, in place of their spec.schedulerName")
	flags.StringVar(&o.profileFrom, "profile-from", "", "KubeSchedulerConfiguration on this machine, by whose profile the same pods are placed for comparison")
	return command
}

// validate checks the flags.
func (o *whatIfOptions) validate(flags *pflag.FlagSet) error {
	s := &o.scenario
	for _, name := range []string{"filename", "like", "scheduler-name", "profile-from"} {
		if f := flags.Lookup(name); f.Changed && f.Value.String() == "" {
			return fmt.Errorf("--%s: it is empty; write a value or leave it out", name)
		}
	}
	switch {
	case o.file == "" && flags.Changed("replicas"):
		return errors.New("--replicas: only with --filename")
	case o.file == "" && s.SchedulerName != "":
		return errors.New("--scheduler-name: only with --filename")
	case o.replicas < 0 || o.replicas > whatif.MaxPods:
		return fmt.Errorf("--replicas: %d; write from 0 to %d", o.replicas, whatif.MaxPods)
	case flags.Changed("add-nodes") && (s.AddNodes < 1 || s.AddNodes > whatif.MaxNodes):
		return fmt.Errorf("--add-nodes: %d; write from 1 to %d", s.AddNodes, whatif.MaxNodes)
	case (s.AddNodes > 0) != (s.Like != ""):
		return errors.New("--add-nodes and --like: write both, such as --add-nodes 2 --like worker-1")
	}
	others := o.file != "" || len(s.Drain) > 0 || len(s.EvictAllIn) > 0
	if !others && s.AddNodes == 0 && !s.Pending {
		return errors.New("nothing is asked: write --filename, --drain, --evict-all-in, --add-nodes or --pending")
	}
	if !others {
		s.Pending = true
	}
	if flags.Changed("replicas") {
		s.Replicas = &o.replicas
	}
	return o.output.validate()
}

func (o *whatIfOptions) run(cmd *cobra.Command) error {
	if err := o.validate(cmd.Flags()); err != nil {
		return usageError{err}
	}
	ctx := cmd.Context()
	connection, err := o.cluster.connect(ctx)
	if err != nil {
		return err
	}
	result := &whatIfResult{}
	if err := o.readFile(ctx, cmd.InOrStdin(), connection, result); err != nil {
		return err
	}
	configuration, err := validConfiguration(ctx, connection, o.cluster.configuration)
	if err != nil {
		return err
	}
	warnOfOtherMinor(cmd, componentversion.Get().GitVersion, configuration.Workload)
	var other *live.Configuration
	if o.profileFrom != "" {
		if other, err = validConfiguration(ctx, connection, live.ConfigurationOptions{File: o.profileFrom}); err != nil {
			return usageError{fmt.Errorf("--profile-from: %w", err)}
		}
	}
	objects, err := connection.Objects(ctx)
	if err != nil {
		return err
	}
	for _, missing := range objects.Missing {
		result.Notes = append(result.Notes, missingNote(missing))
	}
	plan, err := whatif.NewPlan(objects.All, o.scenario)
	if err != nil {
		return usageError{err}
	}
	result.Changes, result.Lost = plan.Changes, plan.Lost
	if err := o.place(ctx, cmd, connection, result, plan, objects.All, configuration, ""); err != nil {
		return err
	}
	if other != nil {
		profile, err := otherProfile(other.Decoded, plan.SchedulerNames())
		if err != nil {
			return usageError{fmt.Errorf("--profile-from: %w", err)}
		}
		if err := o.place(ctx, cmd, connection, result, plan, objects.All, other, profile); err != nil {
			return err
		}
	}
	result.Notes = append(result.Notes, plan.Notes...)
	if err := o.output.print(cmd.OutOrStdout(), result, func(w io.Writer, s style) error { return writeWhatIf(w, s, result) }); err != nil {
		return err
	}
	if result.hasFindings() {
		return errFound
	}
	return nil
}

// readFile reads the file that -f names, and what the API server would add to its pods.
func (o *whatIfOptions) readFile(ctx context.Context, stdin io.Reader, c *live.Connection, result *whatIfResult) error {
	if o.file == "" {
		return nil
	}
	m, err := manifest.ReadFile(ctx, o.file, stdin, c.Namespace)
	if err != nil {
		return usageError{fmt.Errorf("--filename: %w", err)}
	}
	o.scenario.Manifest, o.scenario.Admission = m, manifest.ReadAdmission(ctx, c.Client, m)
	for _, missing := range o.scenario.Admission.Missing {
		result.Notes = append(result.Notes, missingNote(missing))
	}
	return nil
}

func validConfiguration(ctx context.Context, c *live.Connection, o live.ConfigurationOptions) (*live.Configuration, error) {
	configuration, err := c.Configuration(ctx, o)
	if err == nil && configuration.Err != nil {
		err = fmt.Errorf("%s: %w", configuration.Origin, configuration.Err)
	}
	return configuration, err
}

// place runs the plan by the configuration, and adds the outcome to the result. A profile that is not empty places all pods.
func (o *whatIfOptions) place(ctx context.Context, cmd *cobra.Command, c *live.Connection, result *whatIfResult, plan *whatif.Plan,
	objects []runtime.Object, configuration *live.Configuration, profile string) error {
	decoded := configuration.Decoded
	if profile == "" {
		var err error
		if decoded, err = withStockProfiles(decoded, plan.SchedulerNames(), result); err != nil {
			return err
		}
	}
	clock := &whatif.Clock{}
	cluster, err := c.Open(ctx, live.Options{Configuration: decoded, Objects: objects, Source: o.cluster.source, Clock: clock})
	if err != nil {
		return fmt.Errorf("%s: %w", configuration.Origin, err)
	}
	var usages whatif.PodUsages
	if sources := cluster.Sources(); plan.Evicts() && len(sources) > 0 {
		if usages, err = cluster.PodUsage(ctx, sources[0].Spec); err != nil {
			result.note("What the evicted pods use could not be read, so that it is estimated: %v", text.ExcerptError(err))
		}
	}
	clock.Stop()
	for _, s := range cluster.Sources() {
		if s.Err != nil {
			result.note("%s could not be read, so that nodes are judged by requests: %v", s.Label, text.ExcerptError(s.Err))
		}
	}
	out, err := o.simulate(ctx, cmd.ErrOrStderr(), cluster.Scheduler, plan, decoded, profile, usages)
	if err != nil {
		return err
	}
	result.Outcomes = append(result.Outcomes, whatIfOutcome{Configuration: configuration.Origin, Outcome: out})
	return nil
}

func (o *whatIfOptions) simulate(ctx context.Context, stderr io.Writer, s *sim.Scheduler, plan *whatif.Plan,
	configuration *schedulerconfig.KubeSchedulerConfiguration, profile string, usages whatif.PodUsages) (*whatif.Outcome, error) {
	bar := newProgressBar(stderr)
	defer bar.clear()
	return plan.Run(ctx, s, whatif.RunOptions{
		SchedulerName: profile, Profiles: profileNames(configuration), Usages: usages,
		Progress: func(done, of int) { bar.set(float64(done) / float64(of)) },
	})
}

func profileNames(configuration *schedulerconfig.KubeSchedulerConfiguration) (names []string) {
	for i := range configuration.Profiles {
		names = append(names, configuration.Profiles[i].SchedulerName)
	}
	return names
}

// stockProfile is the stock scheduler's profile of a name.
const stockProfile = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: %q}]
`

// withStockProfiles returns the configuration with a stock profile for each of the schedulers that it has no profile for.
func withStockProfiles(configuration *schedulerconfig.KubeSchedulerConfiguration, schedulers []string, result *whatIfResult) (*schedulerconfig.KubeSchedulerConfiguration, error) {
	known := profileNames(configuration)
	for _, name := range schedulers {
		if slices.Contains(known, name) {
			continue
		}
		stock, err := configlint.Decode(fmt.Appendf(nil, stockProfile, name))
		if err != nil {
			return nil, err
		}
		configuration = configuration.DeepCopy()
		configuration.Profiles = append(configuration.Profiles, stock.Profiles[0])
		result.note("The configuration has no profile for the scheduler %q: its pods are placed as the stock scheduler does. For pods of a file, --scheduler-name names another (%s)",
			name, strings.Join(known, ", "))
	}
	return configuration, nil
}

// otherProfile returns the profile of another configuration that places the pods: its only one, or that of the same name.
func otherProfile(configuration *schedulerconfig.KubeSchedulerConfiguration, schedulers []string) (string, error) {
	names := profileNames(configuration)
	if len(names) == 1 {
		return names[0], nil
	}
	for _, name := range schedulers {
		if slices.Contains(names, name) {
			return name, nil
		}
	}
	return "", fmt.Errorf("it has the profiles %s, none of which has the schedulerName of the pods (%s): leave one profile in it",
		strings.Join(names, ", "), strings.Join(schedulers, ", "))
}

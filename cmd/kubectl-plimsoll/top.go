package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// topOptions are the flags of top.
type topOptions struct {
	cluster   *clusterFlags
	output    outputFlags
	view      top.Options
	noHeaders bool

	sort     string
	reverse  bool
	selector string
	watch    bool
}

func newTopCommand() *cobra.Command {
	o := &topOptions{cluster: newClusterFlags()}
	command := o.nodesCommand()
	command.Use = "top"
	command.AddCommand(o.nodesCommand(), o.podsCommand())
	flags := command.PersistentFlags()
	o.cluster.addTo(flags)
	o.output.addTo(flags)
	flags.StringVar(&o.view.SchedulerName, "scheduler-name", "", "schedulerName of the profile; the first with a plugin that reads load if empty")
	flags.StringVar(&o.view.Plugin, "plugin", "", "plugin of the profile that load and lines are shown of; if empty, the first of LoadThreshold, TargetLoadPacking, PredictedPeak and LoadVariationRiskBalancing")
	flags.BoolVar(&o.noHeaders, "no-headers", false, "print no headers")
	return command
}

func (o *topOptions) nodesCommand() *cobra.Command {
	command := &cobra.Command{
		Use:     "nodes [NAME ...]",
		Aliases: []string{"node", "no"},
		Short:   "Show nodes against their load lines",
		Long: `Shows every node as the scheduler sees it now: what was measured, what is pending of pods that the measurement does not cover yet, what
pods request, and the load line.

The line is that of LoadThreshold, with the thresholds of the node's own annotation; without that plugin, the target of
TargetLoadPacking or of PredictedPeak. Load is as the same plugin sees it: --plugin chooses another.

Measured and pending load and the line are in percent of capacity, requests in percent of allocatable. STATE is Fresh, Expired or
Absent, of cpu/memory if they differ; a node whose load is not Fresh is judged by requests. AGE is since the end of the measurement's
window. JUDGED, which is shown where it differs from measured and pending load, is what is compared with the line.

On a terminal a bar shows measured (█) and expected (▒) load against the line (|), as far as there is room. A narrow terminal leaves out
columns; -o json has all figures.

--watch shows the nodes until you press q. Nodes and pods are watched, not listed again, and shown every 2 s; load is read at the
refreshInterval of the plugin. Where the output is no terminal, --watch prints the table again after each refresh of the load.

--sort (or --sort-by) is one of
  line              above the load line, or closest below it (default)
  cpu, memory       what is compared with the line
  cpu-pending, memory-pending, cpu-requested, memory-requested
  age               oldest measurement first
  name`,
		Example: `  # All nodes, those that are closest to their load line first
  kubectl plimsoll top

  # Two nodes, and those of a zone
  kubectl plimsoll top nodes worker-1 worker-2
  kubectl plimsoll top nodes -l topology.kubernetes.io/zone=a --sort cpu

  # Watch them
  kubectl plimsoll top --watch

  # Nodes above their line
  kubectl plimsoll top -o json | jq '.nodes[] | select(.cpu.aboveLine or .memory.aboveLine) | .name'

  # Which pods the load of a node is expected from
  kubectl plimsoll top pods worker-1`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.HasSubCommands() && len(args) > 0 {
				return usageError{fmt.Errorf("%q: write nodes or pods, as in %s nodes %s", args[0], cmd.CommandPath(), args[0])}
			}
			return o.runNodes(cmd, args)
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.sort, "sort", string(top.ByLine), "line, name, cpu, memory, cpu-pending, memory-pending, cpu-requested, memory-requested or age")
	flags.BoolVar(&o.reverse, "reverse", false, "sort in the opposite order")
	flags.StringVarP(&o.selector, "selector", "l", "", "label selector of the nodes, such as key1=value1,key2=value2")
	flags.BoolVarP(&o.watch, "watch", "w", false, "show nodes until interrupted")
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "sort-by" { // as kubectl calls it
			name = "sort"
		}
		return pflag.NormalizedName(name)
	})
	if err := command.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(orderNames(), cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag exists
	}
	return command
}

func orderNames() (names []string) {
	for _, order := range top.Orders() {
		names = append(names, string(order))
	}
	return names
}

func (o *topOptions) podsCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "pods NODE",
		Aliases: []string{"pod", "po"},
		Short:   "Show which pods a node's load is expected from",
		Long: `Shows the pods of a node: what each is expected to use, how much of that the measurement covers, and the rest, which is pending. A mean
over five minutes covers a fifth of a pod that has run for one. TOTAL is what "top nodes" shows as pending.

A resource whose load is not known is judged by what pods request, which is then shown in place of what they are expected to use.`,
		Example: `  # The pods that are not covered yet are first
  kubectl plimsoll top pods worker-1`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("write the name of one node: %s NODE", cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.runPods(cmd, args[0]) },
	}
}

// topSession reads the load of a cluster, again and again.
type topSession struct {
	configuration *live.Configuration
	objects       *top.Objects
	cluster       *live.Cluster
	reader        *top.Reader
	clock         clock.PassiveClock
	// refreshed is when the load was read last, and learned when statistics of workloads were.
	refreshed, learned time.Time
}

// open connects to the cluster, and reads its load for the first time.
func (o *topOptions) open(ctx context.Context) (*topSession, error) {
	connection, err := o.cluster.connect(ctx)
	if err != nil {
		return nil, err
	}
	s := &topSession{clock: clock.RealClock{}}
	if s.configuration, err = connection.Configuration(ctx, o.cluster.configuration); err != nil {
		return nil, err
	}
	if s.configuration.Err != nil {
		return nil, fmt.Errorf("%s: %w", s.configuration.Origin, s.configuration.Err)
	}
	if s.objects, err = top.Watch(ctx, connection.Client, s.clock); err != nil {
		return nil, err
	}
	s.cluster, err = connection.Open(ctx, live.Options{
		Configuration: s.configuration.Decoded, Objects: s.objects.All(), Source: o.cluster.source, IgnoreExtenders: true,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.configuration.Origin, err)
	}
	s.refreshed = s.clock.Now()
	s.learned = s.refreshed
	s.reader, err = top.New(s.cluster.Scheduler, s.configuration.Decoded.Profiles, o.view)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.configuration.Origin, err)
	}
	return s, nil
}

// update applies changes of objects, and reads the load if it is time to. It reports whether it did.
func (s *topSession) update(ctx context.Context) (refreshed bool, err error) {
	if err := s.objects.Apply(s.cluster.Scheduler); err != nil {
		return false, err
	}
	now := s.clock.Now()
	switch {
	case now.Sub(s.learned) >= live.StatisticsInterval:
		s.cluster.Refresh(ctx)
		s.learned = now
	case now.Sub(s.refreshed) >= s.reader.RefreshInterval():
		s.cluster.RefreshLoad(ctx)
	default:
		return false, nil
	}
	s.refreshed = now
	return true, nil
}

// problems are why what is shown may be old or not all.
func (s *topSession) problems() (lines []string) {
	for _, source := range s.cluster.Sources() {
		if source.Err != nil {
			lines = append(lines, source.Label+" could not be read: "+source.Err.Error())
		}
	}
	for _, statistics := range s.cluster.Statistics() {
		if err := errors.Join(statistics.Err, statistics.HistoryErr); err != nil {
			lines = append(lines, statistics.Label+" could not be read: "+err.Error())
		}
	}
	if err := s.objects.Err(); err != nil {
		lines = append(lines, "The API server could not be read: "+err.Error())
	}
	return lines
}

// nodes returns the load of the selected nodes, and what may be wrong with it.
func (s *topSession) nodes(ctx context.Context, selection top.Selection) (*top.Nodes, error) {
	nodes, err := s.reader.Nodes(ctx, selection)
	if err != nil {
		return nil, err
	}
	s.complete(&nodes.View)
	return nodes, nil
}

// complete says where what is shown comes from, and why it may be old or not all.
func (s *topSession) complete(v *top.View) {
	v.Configuration, v.Problems = s.configuration.Origin, s.problems()
}

// title says which plugin the figures are of.
func (s *topSession) title() string {
	return fmt.Sprintf("As %s of profile %s sees it, by %s", s.reader.Plugin(), s.reader.SchedulerName(), s.configuration.Origin)
}

func (o *topOptions) selection(names []string) (top.Selection, error) {
	if err := o.output.validate(); err != nil {
		return top.Selection{}, err
	}
	if !slices.Contains(top.Orders(), top.Order(o.sort)) {
		return top.Selection{}, usageError{fmt.Errorf("--sort: %q; write one of %s", o.sort, strings.Join(orderNames(), ", "))}
	}
	selector, err := labels.Parse(o.selector)
	if err != nil {
		return top.Selection{}, usageError{fmt.Errorf("--selector: %w", err)}
	}
	if o.selector != "" && len(names) > 0 {
		return top.Selection{}, usageError{errors.New("--selector has no effect beside names of nodes; leave out one")}
	}
	return top.Selection{Selector: selector, Names: names}, nil
}

func (o *topOptions) runNodes(cmd *cobra.Command, names []string) error {
	selection, err := o.selection(names)
	if err != nil {
		return err
	}
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	live := o.watch && o.output.format == "table" && styleOf(out).width > 0 && os.Getenv("TERM") != "dumb"
	if live {
		// Log lines would be printed across the view; what they tell is in its title.
		klog.SetLogger(logr.Discard())
	}
	s, err := o.open(ctx)
	if err != nil {
		return err
	}
	read := func() (*top.Nodes, error) {
		nodes, err := s.nodes(ctx, selection)
		if err == nil {
			top.Sort(nodes.Nodes, top.Order(o.sort), o.reverse)
		}
		return nodes, err
	}
	switch {
	case live:
		return o.watchNodes(ctx, cmd, s, selection)
	case o.watch:
		return o.appendNodes(ctx, cmd, s, read)
	}
	nodes, err := read()
	if err != nil {
		return err
	}
	return o.printNodes(cmd, s, nodes)
}

func (o *topOptions) printNodes(cmd *cobra.Command, s *topSession, nodes *top.Nodes) error {
	return o.output.print(cmd.OutOrStdout(), nodes, func(w io.Writer, style style) error {
		fmt.Fprintln(cmd.ErrOrStderr(), escape(s.title()))
		if err := writeNodes(w, nodes, style, top.Order(o.sort), !o.noHeaders); err != nil {
			return err
		}
		for _, note := range notes(&nodes.View, nodes.Nodes) {
			fmt.Fprintln(cmd.ErrOrStderr(), note)
		}
		return nil
	})
}

// showInterval is the time between two looks at changed pods and nodes.
const showInterval = 2 * time.Second

// appendNodes prints the nodes after each refresh of the load.
func (o *topOptions) appendNodes(ctx context.Context, cmd *cobra.Command, s *topSession, read func() (*top.Nodes, error)) error {
	for due := true; ; {
		if due {
			nodes, err := read()
			if err != nil {
				return err
			}
			if err := o.printNodes(cmd, s, nodes); err != nil {
				return err
			}
			if o.output.format == "table" {
				fmt.Fprintln(cmd.OutOrStdout())
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(min(showInterval, s.reader.RefreshInterval())):
		}
		var err error
		if due, err = s.update(ctx); err != nil {
			return err
		}
	}
}

func (o *topOptions) runPods(cmd *cobra.Command, node string) error {
	if err := o.output.validate(); err != nil {
		return err
	}
	s, err := o.open(cmd.Context())
	if err != nil {
		return err
	}
	pods, err := s.reader.Pods(cmd.Context(), node)
	if err != nil {
		return err
	}
	s.complete(&pods.View)
	return o.output.print(cmd.OutOrStdout(), pods, func(w io.Writer, style style) error {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s, node %s\n", escape(s.title()), escape(node))
		if err := writePods(w, pods, style, !o.noHeaders); err != nil {
			return err
		}
		for _, r := range []load.Resource{load.CPU, load.Memory} {
			if state := pods.Node.Resources()[r].State; state != load.Fresh.String() {
				fmt.Fprintf(cmd.ErrOrStderr(), "The node's %s load is %s: it is judged by what its pods request.\n", r, strings.ToLower(state))
			}
		}
		for _, problem := range pods.Problems {
			fmt.Fprintln(cmd.ErrOrStderr(), problem)
		}
		return nil
	})
}

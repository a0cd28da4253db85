package top

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/kubectl"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/output"
)

// topOptions are the flags of top.
type topOptions struct {
	cluster   *kubectl.Flags
	output    output.Flags
	view      Options
	noHeaders bool

	selected Selection
	selector string
	// top is the number of pods to print.
	top int
}

// Command returns the command top. It says which pods were moved, by origins.
func Command(origins cluster.ReadOrigins) *cobra.Command {
	o := &topOptions{cluster: kubectl.NewFlags(), view: Options{Origins: origins}}
	command := o.nodesCommand()
	command.Use, command.Aliases = "top", nil
	command.AddCommand(o.nodesCommand(), o.podsCommand())
	flags := command.PersistentFlags()
	o.cluster.AddTo(flags)
	o.output.AddTo(flags)
	AddViewTo(flags, &o.view)
	flags.BoolVar(&o.noHeaders, "no-headers", false, "print no headers")
	return command
}

// AddViewTo adds the flags that choose a profile and a plugin.
func AddViewTo(flags *pflag.FlagSet, view *Options) {
	flags.StringVar(&view.SchedulerName, "scheduler-name", "",
		"schedulerName of the profile; by default the first with a plugin that reads load")
	flags.StringVar(&view.Plugin, "plugin", "",
		"plugin whose load to show; by default one that has a load line, or else a target, or reads load")
}

func (o *topOptions) nodesCommand() *cobra.Command {
	command := &cobra.Command{
		Use:     "nodes [NAME ...]",
		Aliases: []string{"node", "no"},
		Short:   "Show nodes against their load lines",
		Long:    topNodesHelp,
		Example: topNodesExamples,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.HasSubCommands() && len(args) > 0 {
				return cluster.OptionErrorf("%q: write nodes or pods, as in %s nodes %s", args[0], cmd.CommandPath(), args[0])
			}
			return o.runNodes(cmd, args)
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.selected.Order, "sort", ByLine, "one of "+orders())
	flags.StringVarP(&o.selector, "selector", "l", "", "label selector of the nodes, such as key1=value1,key2=value2")
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "sort-by" { // as in kubectl
			name = "sort"
		}
		return pflag.NormalizedName(name)
	})
	return command
}

func (o *topOptions) validate(names []string) (err error) {
	if err := o.output.Validate(); err != nil {
		return err
	}
	if keys[o.selected.Order] == nil {
		return cluster.OptionErrorf("--sort: %q; write one of %s", o.selected.Order, orders())
	}
	if o.selected.Selector, err = labels.Parse(o.selector); err != nil {
		return cluster.OptionErrorf("--selector: %w", err)
	}
	if o.selector != "" && len(names) > 0 {
		return cluster.OptionErrorf("--selector has no effect together with names of nodes; leave out the selector or the names")
	}
	o.selected.Names = names
	return nil
}

func (o *topOptions) runNodes(cmd *cobra.Command, names []string) error {
	if err := o.validate(names); err != nil {
		return err
	}
	s, err := o.open(cmd)
	if err != nil {
		return err
	}
	nodes, err := s.Nodes(cmd.Context(), o.selected)
	if err != nil {
		return err
	}
	return o.print(cmd, nodes, nodes.Title(), nodes.Notes(), func(p *terminal.Printer) { nodes.Print(p, !o.noHeaders) })
}

func (o *topOptions) podsCommand() *cobra.Command {
	command := &cobra.Command{
		Use:     "pods [NODE ...]",
		Aliases: []string{"pod", "po"},
		Short:   "Show the expected usage of pods",
		Long:    topPodsHelp,
		Example: topPodsExamples,
		RunE:    o.runPods,
	}
	command.Flags().IntVar(&o.top, "top", 20, "number of pods to print; 0 prints all, as does NODE")
	return command
}

func (o *topOptions) open(cmd *cobra.Command) (*Session, error) {
	connection, err := o.cluster.Connect(cmd)
	if err != nil {
		return nil, err
	}
	return Open(cmd.Context(), connection, o.cluster.Configuration, o.cluster.Source, o.view)
}

func (o *topOptions) runPods(cmd *cobra.Command, nodes []string) error {
	if err := o.output.Validate(); err != nil {
		return err
	}
	if o.top < 0 {
		return cluster.OptionErrorf("--top: %d; write 0 for all pods, or more", o.top)
	}
	s, err := o.open(cmd)
	if err != nil {
		return err
	}
	namespace, title := *o.cluster.Kube.Namespace, "" // a context's namespace selects no pods
	pods, err := s.PodsOf(cmd.Context(), nodes, namespace)
	if err != nil {
		return err
	}
	if len(nodes) == 0 || cmd.Flags().Changed("top") {
		pods.Top = o.top
	}
	if len(nodes) > 0 {
		title = ", " + strings.Join(nodes, ", ")
	}
	if namespace != "" {
		title += ", namespace " + namespace
	}
	return o.print(cmd, pods, pods.Title()+title, pods.Notes(), func(p *terminal.Printer) { pods.Print(p, !o.noHeaders) })
}

// print prints a table with its title and notes on standard error.
func (o *topOptions) print(
	cmd *cobra.Command, result output.Result, title string, notes []string, table func(*terminal.Printer),
) error {
	if !o.output.IsTable() {
		return o.output.Print(cmd, result, nil)
	}
	output.Lines(cmd.ErrOrStderr(), title)
	if err := o.output.Print(cmd, result, table); err != nil {
		return err
	}
	output.Lines(cmd.ErrOrStderr(), notes...)
	return nil
}

func (*Nodes) JSONKind() string { return "NodeLoads" }

func (*Pods) JSONKind() string { return "PodLoads" }

package top

import (
	"github.com/spf13/cobra"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/output"
)

func (o *topOptions) podsCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "pods NODE",
		Aliases: []string{"pod", "po"},
		Short:   "Show the expected usage of a node's pods",
		Long:    topPodsHelp,
		Example: topPodsExamples,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cluster.OptionErrorf("write the name of one node: %s NODE", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.runPods(cmd, args[0]) },
	}
}

func (o *topOptions) open(cmd *cobra.Command) (*Session, error) {
	connection, err := o.cluster.Connect(cmd)
	if err != nil {
		return nil, err
	}
	return Open(cmd.Context(), connection, o.cluster.Configuration, o.cluster.Source, o.view)
}

func (o *topOptions) runPods(cmd *cobra.Command, node string) error {
	if err := o.output.Validate(); err != nil {
		return err
	}
	if o.output.Format == output.Names {
		return cluster.OptionErrorf("--output: names lack the namespaces of the pods; write -o '%s' | xargs -L1 kubectl get", podNames)
	}
	s, err := o.open(cmd)
	if err != nil {
		return err
	}
	pods, err := s.Pods(cmd.Context(), node)
	if err != nil {
		return err
	}
	return o.print(cmd, pods, pods.Title()+", node "+node, pods.Notes(),
		func(p *terminal.Printer) { pods.Print(p, !o.noHeaders) })
}

// podNames is the format that prints kubectl's arguments for each pod, one a line.
const podNames = `jsonpath={range .pods[*]}-n {.namespace} pod/{.name}{"\n"}{end}`

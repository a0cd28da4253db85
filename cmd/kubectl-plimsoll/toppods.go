package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
)

func (o *topOptions) podsCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "pods NODE",
		Aliases: []string{"pod", "po"},
		Short:   "Show the expected usage of a node's pods",
		Long:    topPodsHelp,
		Example: topPodsExamples,

		ValidArgsFunction: o.cluster.completeNames("nodes"),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("write the name of one node: %s NODE", cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.runPods(cmd, args[0]) },
	}
}

func (o *topOptions) open(cmd *cobra.Command) (*top.Session, error) {
	connection, err := o.cluster.connect()
	if err != nil {
		return nil, err
	}
	return top.Open(cmd.Context(), connection, o.cluster.configuration, o.cluster.source, o.view)
}

func (o *topOptions) runPods(cmd *cobra.Command, node string) error {
	if err := cmp.Or(o.output.validate(), o.output.refuseNames("pods", "pod/{.name}")); err != nil {
		return err
	}
	s, err := o.open(cmd)
	if err != nil {
		return err
	}
	pods, err := s.Pods(cmd.Context(), node)
	if err != nil {
		return err
	}
	return o.output.print(cmd, pods, pods.Title()+", node "+node, pods.Notes(),
		func(p *terminal.Printer) { pods.Print(p, !o.noHeaders) })
}

package main

import (
	"github.com/spf13/cobra"
	componentversion "k8s.io/component-base/version"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/moves"
)

func newRebalanceCommand() *cobra.Command {
	cluster, output, request := newClusterFlags(), &outputFlags{}, moves.Request{}
	command := &cobra.Command{
		Use:   "rebalance",
		Short: "Plan which pods to move off hot nodes; moves none",
		Long: `Plans which pods to move off hot nodes, where the scheduler's own code would place them, and why other pods stay.

It only plans: it evicts nothing, and no part of Plimsoll evicts pods yet. A plan has one move per hot node at most. A node
counts as hot at the first look, so refreshes of the RebalancerConfiguration has no effect.`,
		Example: `  # The plan now
  kubectl plimsoll rebalance

  # With your own limits, for a script
  kubectl plimsoll rebalance --rebalancer-config rebalancer.yaml -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := output.validate(); err != nil {
				return err
			}
			connection, err := cluster.connect()
			if err != nil {
				return err
			}
			request.Configuration, request.Source = cluster.configuration, cluster.source
			request.Found = func(c *live.Configuration) { warnOfOtherMinor(cmd, componentversion.Get().GitVersion, c.Workload) }
			report, err := moves.Run(cmd.Context(), connection, request)
			if err != nil {
				return err
			}
			return output.print(cmd, report, "", nil, report.Print)
		},
	}
	flags := command.Flags()
	cluster.addTo(command, flags)
	output.addTo(command, flags)
	flags.StringVar(&request.Rebalancer, "rebalancer-config", "", "file with a RebalancerConfiguration; by default its defaults")
	completeFiles(command, "rebalancer-config")
	return command
}

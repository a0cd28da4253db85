package command

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/kubectl"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/output"
)

// Command returns the command rebalance.
func Command() *cobra.Command {
	access, format, request := kubectl.NewFlags(), &output.Flags{}, Request{}
	command := &cobra.Command{
		Use:   "rebalance",
		Short: "Plan which pods to move off hot nodes",
		Long: `Plans which pods to move off hot nodes, and where the scheduler's own code would place them. It says why other pods stay.

It evicts nothing: the program rebalancer does, in mode Evict. A plan has one move per hot node at most. A node counts as hot at
the first look, so the field refreshes of the RebalancerConfiguration has no effect.`,
		Example: `  # The plan now
  kubectl plimsoll rebalance

  # With your own limits, for a script
  kubectl plimsoll rebalance --rebalancer-config rebalancer.yaml -o json`,
		Args: kubectl.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := format.Validate(); err != nil {
				return err
			}
			connection, err := access.Connect(cmd)
			if err != nil {
				return err
			}
			request.Configuration, request.Source = access.Configuration, access.Source
			request.Found = kubectl.FoundBy(cmd, connection)
			report, err := Run(cmd.Context(), connection, request)
			if err != nil {
				return err
			}
			return format.Print(cmd, report, report.Print)
		},
	}
	flags := command.Flags()
	access.AddTo(flags)
	format.AddTo(flags)
	AddFileTo(flags, &request.Rebalancer)
	return command
}

// AddFileTo adds the flag of the rebalancer's configuration.
func AddFileTo(flags *pflag.FlagSet, file *string) {
	flags.StringVar(file, "rebalancer-config", "", "file with a RebalancerConfiguration (default: its default values)")
}

func (*Report) JSONKind() string { return "RebalancePlan" }

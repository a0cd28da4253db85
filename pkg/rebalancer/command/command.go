package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster/kubectl"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/output"
)

// Command returns the command rebalance.
func Command() *cobra.Command {
	access, format, request := kubectl.NewFlags(), &output.Flags{}, Request{}
	var evict, yes bool
	command := &cobra.Command{
		Use:   "rebalance",
		Short: "Plan which pods to move off hot nodes, and move them with --evict",
		Long: `Plans which pods to move off hot nodes, and where the scheduler's own code would place them. It says why other pods stay.

Without --evict it only plans. A plan has one move per hot node at most. A node counts as hot at the first look, so the
field refreshes of the RebalancerConfiguration has no effect.

With --evict it asks, and then evicts the pods of the plan one at a time. It waits until each replacement is ready. Ctrl-C
stops between moves. It needs the permission to create pods/eviction, and a scheduler with leader election.`,
		Example: `  # The plan now
  kubectl plimsoll rebalance

  # Make the moves after a confirmation
  kubectl plimsoll rebalance --evict

  # With your own limits, for a script
  kubectl plimsoll rebalance --rebalancer-config rebalancer.yaml -o json`,
		Args: kubectl.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := format.Validate(); err != nil {
				return err
			}
			if evict && cmd.Flags().Changed("output") {
				return cluster.OptionErrorf("--output: not supported with --evict; run the plan with -o json first")
			}
			if yes && !evict {
				return cluster.OptionErrorf("--yes: has no effect without --evict; add --evict to make the moves")
			}
			connection, err := access.Connect(cmd)
			if err != nil {
				return err
			}
			request.Configuration, request.Source = access.Configuration, access.Source
			request.Found = kubectl.FoundBy(cmd, connection)
			if evict {
				return runEviction(cmd, access, connection, request, yes)
			}
			report, err := Run(cmd.Context(), connection, request)
			if err != nil {
				return err
			}
			return format.Print(cmd, report, report.Print)
		},
	}
	flags := command.Flags()
	access.AddTo(command, flags)
	format.AddTo(command, flags)
	AddFileTo(command, flags, &request.Rebalancer)
	flags.BoolVar(&evict, "evict", false, "evict the pods of the plan, one at a time, and wait for their replacements")
	flags.BoolVar(&yes, "yes", false, "with --evict, do not ask for confirmation")
	return command
}

// AddFileTo adds the flag of the rebalancer's configuration.
func AddFileTo(command *cobra.Command, flags *pflag.FlagSet, file *string) {
	const name = "rebalancer-config"
	flags.StringVar(file, name, "", "file with a RebalancerConfiguration (default: its default values)")
	kubectl.CompleteFiles(command, name)
}

// runEviction makes the moves of a plan that the user confirms.
func runEviction(cmd *cobra.Command, access *kubectl.Flags, connection *cluster.Connection, request Request, yes bool) error {
	kubeConfig, err := access.Kube.ToRESTConfig()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(kubeConfig)
	if err != nil {
		return err
	}
	return Evict(cmd.Context(), connection, request, Eviction{
		Client: client,
		Confirm: func(r *Report) (bool, error) {
			p := &terminal.Printer{}
			r.Print(p)
			if _, err := fmt.Fprint(cmd.OutOrStdout(), p.String()); err != nil || yes || len(r.Moves) == 0 {
				return err == nil && yes, err
			}
			confirmed, err := terminal.Confirm(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr(), "Evict these pods?")
			if errors.Is(err, context.Canceled) {
				return false, errors.New("stopped; no pod was moved")
			}
			if err != nil {
				return false, fmt.Errorf("no answer: %w; write --yes to evict without a question", err)
			}
			return confirmed, nil
		},
		Progress: func(line string) { fmt.Fprintln(cmd.OutOrStdout(), line) },
	})
}

// JSONKind implements output.Result.
func (*Report) JSONKind() string { return "RebalancePlan" }

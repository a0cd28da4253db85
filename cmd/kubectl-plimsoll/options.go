package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/kubectl"
)

// withoutGlobalFlags returns a usage function that leaves global flags out.
func withoutGlobalFlags(usage func(*cobra.Command) error) func(*cobra.Command) error {
	return func(command *cobra.Command) error {
		var hidden []*pflag.Flag
		hide := func(f *pflag.Flag) {
			if kubectl.IsGlobal(f) && !f.Hidden {
				f.Hidden, hidden = true, append(hidden, f)
			}
		}
		command.LocalFlags().VisitAll(hide)
		command.InheritedFlags().VisitAll(hide)
		defer func() {
			for _, f := range hidden {
				f.Hidden = false
			}
		}()
		if err := usage(command); err != nil {
			return err
		}
		if len(hidden) > 0 {
			fmt.Fprint(command.OutOrStderr(),
				"\nUse \"kubectl plimsoll options\" for the flags of the cluster, its scheduler and the source of load.\n")
		}
		return nil
	}
}

func newOptionsCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "options", Short: "List the flags of all commands that look at a cluster",
		Example: "  # List them\n  kubectl plimsoll options", Args: kubectl.NoArgs,
	}
	command.RunE = func(cmd *cobra.Command, _ []string) error {
		every := &cobra.Command{}
		kubectl.NewFlags().AddTo(every.Flags())
		addVerbosity(every.Flags())
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "These flags can be passed to any command that looks at a cluster:\n\n%s",
			every.Flags().FlagUsages())
		return err
	}
	return command
}

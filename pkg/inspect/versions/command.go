package versions

import (
	"github.com/spf13/cobra"
	componentversion "k8s.io/component-base/version"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster/kubectl"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/output"
)

// Command returns the command version.
func Command() *cobra.Command {
	access, format, clientOnly := kubectl.NewFlags(), &output.Flags{}, false
	command := &cobra.Command{
		Use:   "version",
		Short: "Show the versions of the command and of the scheduler",
		Long:  "Shows the version of this command and of its Kubernetes, and the image of the scheduler in the cluster.",
		Example: `  # Both versions
  kubectl plimsoll version

  # The command's version, without a cluster
  kubectl plimsoll version --client`,
		Args:              kubectl.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := format.Validate(); err != nil {
				return err
			}
			client := Client{Version: cmd.Root().Version, Kubernetes: componentversion.Get().GitVersion}
			report := &Report{Client: client}
			if !clientOnly {
				connection, err := access.Connect(cmd)
				if err != nil {
					return err
				}
				report.SetScheduler(connection.Configuration(cmd.Context(), access.Configuration))
			}
			return format.Print(cmd, report, report.Print)
		},
	}
	access.AddTo(command.Flags())
	format.AddTo(command.Flags())
	command.Flags().BoolVar(&clientOnly, "client", false, "show only the version of this command")
	return command
}

// JSONKind implements output.Result.
func (*Report) JSONKind() string { return "Version" }

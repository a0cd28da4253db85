package main

import (
	"github.com/spf13/cobra"
	componentversion "k8s.io/component-base/version"

	"github.com/plimsoll-scheduler/plimsoll/internal/program"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/versions"
)

func newVersionCommand() *cobra.Command {
	cluster, output, clientOnly := newClusterFlags(), &outputFlags{}, false
	command := &cobra.Command{
		Use:   "version",
		Short: "Show the versions of the command and of the scheduler",
		Long:  "Shows the version of this command and of its Kubernetes, and the image of the scheduler in the cluster.",
		Example: `  # Both versions
  kubectl plimsoll version

  # The command's version, without a cluster
  kubectl plimsoll version --client`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := output.validate(); err != nil {
				return err
			}
			client := versions.Client{Version: program.Version(version), Kubernetes: componentversion.Get().GitVersion}
			report := &versions.Report{Client: client}
			if !clientOnly {
				connection, err := cluster.connect()
				if err != nil {
					return err
				}
				report.SetScheduler(connection.Configuration(cmd.Context(), cluster.configuration))
			}
			return output.print(cmd, report, "", nil, report.Print)
		},
	}
	cluster.addTo(command, command.Flags())
	output.addTo(command, command.Flags())
	command.Flags().BoolVar(&clientOnly, "client", false, "show only the version of this command")
	return command
}

package main

import (
	"cmp"

	"github.com/spf13/cobra"
	componentversion "k8s.io/component-base/version"

	"github.com/plimsoll-scheduler/plimsoll/internal/program"
	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
)

// versions are those of the command, and of the scheduler in the cluster.
type versions struct {
	Client clientVersion `json:"client"`
	// Scheduler is absent if it was not looked for or not found.
	Scheduler *schedulerVersion `json:"scheduler,omitempty"`
	// Problem says why no scheduler was found.
	Problem string `json:"problem,omitempty"`
}

type clientVersion struct {
	Version    string `json:"version"`
	Kubernetes string `json:"kubernetes"`
}

type schedulerVersion struct {
	// Workload runs the scheduler, such as "Deployment plimsoll-system/plimsoll".
	Workload string `json:"workload"`
	Image    string `json:"image"`
	// Chart is the version of the chart; empty without one.
	Chart string `json:"chart,omitempty"`
}

func (v *versions) print(p *terminal.Printer) {
	p.Printf("Client: Plimsoll %s, Kubernetes %s\n", v.Client.Version, v.Client.Kubernetes)
	switch {
	case v.Scheduler != nil:
		p.Printf("Scheduler: %s, image %s\n", v.Scheduler.Workload, cmp.Or(v.Scheduler.Image, "unknown"))
		if v.Scheduler.Chart != "" {
			p.Printf("Chart: %s\n", v.Scheduler.Chart)
		}
	case v.Problem != "":
		p.Printf("Scheduler: not found: %s\n", v.Problem)
	}
}

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
			v := &versions{Client: clientVersion{program.Version(version), componentversion.Get().GitVersion}}
			if !clientOnly {
				connection, err := cluster.connect()
				if err != nil {
					return err
				}
				v.setScheduler(connection.Configuration(cmd.Context(), cluster.configuration))
			}
			return output.print(cmd, v, "", nil, v.print)
		},
	}
	cluster.addTo(command, command.Flags())
	output.addTo(command, command.Flags())
	command.Flags().BoolVar(&clientOnly, "client", false, "show only the version of this command")
	return command
}

// setScheduler sets the scheduler, or why there is none.
func (v *versions) setScheduler(found *live.Configuration, err error) {
	switch {
	case err != nil:
		v.Problem = text.ExcerptError(err).Error()
	case found.Workload == nil:
		v.Problem = "its configuration is " + found.Origin
	default:
		v.Scheduler = &schedulerVersion{found.Workload.String(), found.Workload.Image, found.Workload.ChartVersion}
	}
}

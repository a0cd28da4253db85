// Package versions shows the versions of the command and of the scheduler in a cluster.
package versions

import (
	"cmp"

	"github.com/spf13/cobra"
	componentversion "k8s.io/component-base/version"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
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
		Args: kubectl.NoArgs,
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

// Report holds the versions of the command, and of the scheduler in the cluster.
type Report struct {
	Client Client `json:"client"`
	// Scheduler is absent if it was not looked for or not found.
	Scheduler *Scheduler `json:"scheduler,omitempty"`
	// Problem says why no scheduler was found.
	Problem string `json:"problem,omitempty"`
}

// Client is the command.
type Client struct {
	Version    string `json:"version"`
	Kubernetes string `json:"kubernetes"`
}

// Scheduler is the scheduler in the cluster.
type Scheduler struct {
	// Workload runs the scheduler, such as "Deployment plimsoll-system/plimsoll".
	Workload string `json:"workload"`
	Image    string `json:"image"`
	// Chart is the version of the chart; empty without one.
	Chart string `json:"chart,omitempty"`
}

// SetScheduler sets the scheduler, or why there is none.
func (r *Report) SetScheduler(found *cluster.Configuration, err error) {
	switch {
	case err != nil:
		r.Problem = text.ExcerptError(err).Error()
	case found.Workload == nil:
		r.Problem = "its configuration is " + found.Origin
	default:
		r.Scheduler = &Scheduler{found.Workload.String(), found.Workload.Image, found.Workload.ChartVersion}
	}
}

// Print prints the versions.
func (r *Report) Print(p *terminal.Printer) {
	p.Printf("Client: Plimsoll %s, Kubernetes %s\n", r.Client.Version, r.Client.Kubernetes)
	switch {
	case r.Scheduler != nil:
		p.Printf("Scheduler: %s, image %s\n", r.Scheduler.Workload, cmp.Or(r.Scheduler.Image, "unknown"))
		if r.Scheduler.Chart != "" {
			p.Printf("Chart: %s\n", r.Scheduler.Chart)
		}
	case r.Problem != "":
		p.Printf("Scheduler: not found: %s\n", r.Problem)
	}
}

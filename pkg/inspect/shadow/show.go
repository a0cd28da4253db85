package shadow

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster/kubectl"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/output"
)

// shadowOptions are the flags of shadow.
type shadowOptions struct {
	cluster *kubectl.Flags
	output  output.Flags
	request Request
	since   time.Duration
}

// Command returns the command shadow.
func Command() *cobra.Command {
	o := &shadowOptions{cluster: kubectl.NewFlags()}
	command := &cobra.Command{
		Use:   cluster.ShadowCommand,
		Short: "Show what Plimsoll would have decided for another scheduler's pods",
		Long: `Shows how many pods of another scheduler Plimsoll would have placed elsewhere, and the hot minutes of both
choices. The shadow in the cluster counts them; the chart's value shadow.enabled installs it.

A hot minute is a minute in a pod's first hour in which its node is above 80 % of CPU. For Plimsoll's choice it is
predicted: the node's measured load and the pod's expected usage.`,
		Example: `  # The last six hours
  kubectl plimsoll shadow --since 6h

  # One namespace, for a script
  kubectl plimsoll shadow -n shop -o json`,
		Args: kubectl.NoArgs,
		RunE: o.run,
	}
	flags := command.Flags()
	o.cluster.AddConnectionTo(flags)
	o.output.AddTo(flags)
	flags.DurationVar(&o.since, "since", MaxHours*time.Hour, fmt.Sprintf(
		"whole hours to show, the present one included, from 1h to %dh", MaxHours))
	flags.StringVar(&o.request.Service, "service", "", "NAMESPACE/NAME of the shadow's Service, if it is not found by its label")
	command.AddCommand(runCommand())
	return command
}

func (o *shadowOptions) run(cmd *cobra.Command, _ []string) error {
	if err := o.output.Validate(); err != nil {
		return err
	}
	if o.since < time.Hour || o.since > MaxHours*time.Hour || o.since%time.Hour != 0 {
		return cluster.OptionErrorf("--since: %v; write whole hours from 1h to %dh", o.since, MaxHours)
	}
	connection, err := o.cluster.Connect(cmd)
	if err != nil {
		return err
	}
	o.request.Hours = int(o.since / time.Hour)
	if cmd.Flags().Changed("namespace") {
		o.request.Namespace = connection.Namespace
	}
	report, err := Read(cmd.Context(), connection, o.request)
	if err != nil {
		return err
	}
	return o.output.Print(cmd, report, report.Print)
}

// JSONKind implements output.Result.
func (*Report) JSONKind() string { return "Shadow" }

package main

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
)

// doctorOptions are the flags of doctor.
type doctorOptions struct {
	cluster  *clusterFlags
	output   outputFlags
	selected doctor.Selection
	// failOn is the status from which on the exit code is 1.
	failOn string
	// metricsAddress is where metrics are served, if it is not empty, and interval the time between two runs.
	metricsAddress string
	interval       time.Duration
}

func newDoctorCommand() *cobra.Command {
	o := &doctorOptions{cluster: newClusterFlags()}
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Find what keeps the scheduler from placing pods by load",
		Long: `Checks the configuration, the source of load, and the nodes' load, clocks and values. It also checks permissions,
the running scheduler, and pods that no scheduler watches. Each failed check includes a fix. Nothing is changed.

In the scheduler's pod, it checks with the scheduler's own permissions, network, token and CA files. Elsewhere
it reaches Services through the API server's proxy, which passes on no token. There it checks the permissions of
the scheduler's account by impersonation; --as chooses another account.

Exit codes: 0 all selected checks passed, 1 a check failed, 2 the API server cannot be read.`,
		Example: `  # Check the scheduler of the cluster
  kubectl plimsoll doctor

  # Check with the scheduler's own permissions, network, token and CA files
  kubectl -n plimsoll-system exec deploy/plimsoll -- kubectl-plimsoll doctor

  # Check a configuration before you apply it, with a source behind a port-forward
  kubectl plimsoll doctor --config scheduler.yaml --source-address http://localhost:9090

  # Check the permissions of a service account
  kubectl plimsoll doctor --as system:serviceaccount:plimsoll-system:plimsoll

  # Fail a pipeline by errors of the source and its values alone
  kubectl plimsoll doctor --check source,values --fail-on error

  # List failed checks, for a script
  kubectl plimsoll doctor --only-problems -o json

  # Serve the results as metrics, for alerts
  kubectl plimsoll doctor --metrics-address localhost:10260 --interval 10m

  # Report to a pipeline
  kubectl plimsoll doctor --fail-on error -o junit > doctor.xml`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	o.cluster.addTo(command, command.Flags())
	o.output.addTo(command, command.Flags(), junit, sarif)
	command.Flags().StringSliceVar(&o.selected.Checks, "check", nil,
		"groups or ids of checks to show: "+strings.Join(doctor.Groups(), ", ")+" (default all)")
	command.Flags().BoolVar(&o.selected.OnlyProblems, "only-problems", false, "show only checks with something to fix")
	command.Flags().StringVar(&o.failOn, "fail-on", string(doctor.Warning), "lowest status with exit code 1: warning or error")
	command.Flags().StringVar(&o.metricsAddress, "metrics-address", "",
		"run until interrupted, and serve the results as metrics at this address, such as :10260")
	command.Flags().DurationVar(&o.interval, "interval", 5*time.Minute, "time between two runs with --metrics-address")
	completeValues(command, "check", slices.Concat(doctor.Groups(), doctor.IDs())...)
	completeValues(command, "fail-on", string(doctor.Warning), string(doctor.Error))
	return command
}

// validate fails if a flag is wrong.
func (o *doctorOptions) validate() error {
	if err := o.output.validate(); err != nil {
		return err
	}
	if o.failOn != string(doctor.Warning) && o.failOn != string(doctor.Error) {
		return cluster.OptionErrorf("--fail-on: %q; write warning or error", o.failOn)
	}
	if o.interval < time.Second {
		return cluster.OptionErrorf("--interval: %v; write at least 1s", o.interval)
	}
	return o.selected.Validate()
}

// checkConflicts fails for flags without effect beside others.
func (o *doctorOptions) checkConflicts(changed func(flag string) bool) error {
	idle, reason := []string{"interval"}, "--metrics-address is not set"
	if o.metricsAddress != "" {
		idle, reason = []string{"check", "fail-on", "only-problems", "output"}, "--metrics-address serves the results of all checks"
	}
	for _, flag := range idle {
		if changed(flag) {
			return cluster.OptionErrorf("--%s: no effect: %s", flag, reason)
		}
	}
	return nil
}

func (o *doctorOptions) run(cmd *cobra.Command) error {
	if err := cmp.Or(o.validate(), o.checkConflicts(cmd.Flags().Changed)); err != nil {
		return err
	}
	conn, err := o.cluster.connect()
	if err != nil {
		return usageError{err}
	}
	run := func(ctx context.Context) (*doctor.Report, error) {
		return doctor.Run(ctx, conn, doctor.Options{Configuration: o.cluster.configuration, Source: o.cluster.source})
	}
	if o.metricsAddress != "" {
		listener, err := net.Listen("tcp", o.metricsAddress)
		if err != nil {
			return cluster.OptionErrorf("--metrics-address: %w", err)
		}
		return doctor.NewExporter(run, clock.RealClock{}).Serve(cmd.Context(), listener, o.interval)
	}
	report, err := run(cmd.Context())
	if err != nil {
		return err
	}
	report.Select(o.selected)
	failed := report.Failed() || o.failOn == string(doctor.Warning) && report.NeedsFix()
	switch o.output.format {
	case junit:
		err = report.WriteJUnit(cmd.OutOrStdout(), doctor.Status(o.failOn))
	case sarif:
		err = report.WriteSARIF(cmd.OutOrStdout(), cmd.Root().Version)
	default:
		err = o.output.print(cmd, report, "", nil, report.Print)
	}
	if err != nil || !failed {
		return err
	}
	return errProblems
}

// Formats of --output that only doctor has, for pipelines.
const (
	junit = "junit"
	sarif = "sarif"
)

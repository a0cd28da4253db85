package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/checks"
)

// doctorOptions are the flags of doctor.
type doctorOptions struct {
	cluster  *clusterFlags
	output   outputFlags
	selected doctor.Selection
	// failOn is the status from which on the exit code is 1.
	failOn string
}

// checksOfDoctor are the checks of doctor that other packages have.
func checksOfDoctor() []doctor.Supplier { return []doctor.Supplier{checks.Supplier()} }

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
  kubectl plimsoll doctor --only-problems -o json`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	o.cluster.addTo(command, command.Flags())
	o.output.addTo(command, command.Flags())
	command.Flags().StringSliceVar(&o.selected.Checks, "check", nil,
		"groups or ids of checks to show: "+strings.Join(doctor.Groups(checksOfDoctor()...), ", ")+" (default all)")
	command.Flags().BoolVar(&o.selected.OnlyProblems, "only-problems", false, "show only checks with something to fix")
	command.Flags().StringVar(&o.failOn, "fail-on", string(doctor.Warning), "lowest status with exit code 1: warning or error")
	completeValues(command, "check", slices.Concat(doctor.Groups(checksOfDoctor()...), doctor.IDs(checksOfDoctor()...))...)
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
	return o.selected.Validate(checksOfDoctor()...)
}

func (o *doctorOptions) run(cmd *cobra.Command) error {
	if err := o.validate(); err != nil {
		return err
	}
	conn, err := o.cluster.connect()
	if err != nil {
		return usageError{err}
	}
	report, err := doctor.Run(cmd.Context(), conn, doctor.Options{
		Configuration: o.cluster.configuration, Source: o.cluster.source, Suppliers: checksOfDoctor(),
	})
	if err != nil {
		return err
	}
	report.Select(o.selected)
	if err := o.output.print(cmd, report, "", nil, report.Print); err != nil {
		return err
	}
	if report.Failed() || o.failOn == string(doctor.Warning) && report.NeedsFix() {
		return errProblems
	}
	return nil
}

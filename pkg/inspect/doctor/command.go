package doctor

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/kubectl"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/output"
)

// doctorOptions are the flags of doctor.
type doctorOptions struct {
	cluster  *kubectl.Flags
	output   output.Flags
	selected []string
	// failOn is the status from which on the exit code is 1.
	failOn    string
	suppliers []Supplier
}

// Command returns the command doctor, with checks of other suppliers.
func Command(suppliers ...Supplier) *cobra.Command {
	o := &doctorOptions{cluster: kubectl.NewFlags(), suppliers: suppliers}
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Find what keeps the scheduler from placing pods by load",
		Long: `Checks the configuration, the source of load, and the nodes' load, clocks and values. It also checks permissions,
the running scheduler, and pods that no scheduler watches. Each failed check includes a fix. Nothing is changed.

In the scheduler's pod, it checks with the scheduler's own permissions, network, token and CA files. Elsewhere
it reaches no Services, unless --source-address names a port-forward. There it checks the permissions of the
scheduler's account by impersonation; --as chooses another account.

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

  # List errors, for a script
  kubectl plimsoll doctor -o json | jq '.checks[] | select(.status == "error")'`,
		Args: kubectl.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	o.cluster.AddTo(command.Flags())
	o.output.AddTo(command.Flags())
	command.Flags().StringSliceVar(&o.selected, "check", nil,
		"groups or ids of checks to show: "+strings.Join(Groups(suppliers...), ", ")+" (default all)")
	command.Flags().StringVar(&o.failOn, "fail-on", string(Warning), "lowest status with exit code 1: warning or error")
	return command
}

func (o *doctorOptions) run(cmd *cobra.Command) error {
	if err := cmp.Or(o.output.Validate(), ValidateSelection(o.selected, o.suppliers...)); err != nil {
		return err
	}
	if o.failOn != string(Warning) && o.failOn != string(Error) {
		return cluster.OptionErrorf("--fail-on: %q; write warning or error", o.failOn)
	}
	conn, err := o.cluster.Connect(cmd)
	if err != nil {
		return cluster.OptionErrorf("%w", err)
	}
	report, err := Run(cmd.Context(), conn, Options{
		Configuration: o.cluster.Configuration, Source: o.cluster.Source, Suppliers: o.suppliers,
	})
	if err != nil {
		return err
	}
	report.Select(o.selected)
	if err := o.output.Print(cmd, report, report.Print); err != nil {
		return err
	}
	if report.Failed() || o.failOn == string(Warning) && report.NeedsFix() {
		return output.ErrProblems
	}
	return nil
}

func (*Report) JSONKind() string { return "Diagnosis" }

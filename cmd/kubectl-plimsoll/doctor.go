package main

import (
	"github.com/spf13/cobra"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
)

// doctorOptions are the flags of doctor.
type doctorOptions struct {
	cluster *clusterFlags
	output  outputFlags
}

func newDoctorCommand() *cobra.Command {
	o := &doctorOptions{cluster: newClusterFlags()}
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Find what keeps the scheduler from placing pods by load",
		Long: `Checks the configuration, the source of load, the nodes' load, clocks, values, permissions, the running
scheduler, and pods that no scheduler watches. Each failed check includes a fix. Nothing is changed.

In the scheduler's pod, it checks with the scheduler's own permissions, network, token and CA files. Elsewhere
it reaches Services through the API server's proxy, which passes on no token, and checks the permissions of
the scheduler's account by impersonation; --as chooses another account.

Exit codes: 0 all checks passed, 1 a check failed, 2 the API server cannot be read.`,
		Example: `  # Check the scheduler of the cluster
  kubectl plimsoll doctor

  # Check with the scheduler's own permissions, network, token and CA files
  kubectl -n plimsoll-system exec deploy/plimsoll -- kubectl-plimsoll doctor

  # Check a configuration before you apply it, with a source behind a port-forward
  kubectl plimsoll doctor --config scheduler.yaml --source-address http://localhost:9090

  # Check the permissions of a service account
  kubectl plimsoll doctor --as system:serviceaccount:plimsoll-system:plimsoll

  # List failed checks, for a script
  kubectl plimsoll doctor -o json | jq '.checks[] | select(.status != "ok")'`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	o.cluster.addTo(command, command.Flags())
	o.output.addTo(command, command.Flags())
	return command
}

func (o *doctorOptions) run(cmd *cobra.Command) error {
	if err := o.output.validate(); err != nil {
		return err
	}
	conn, err := o.cluster.connect()
	if err != nil {
		return usageError{err}
	}
	report, err := doctor.Run(cmd.Context(), conn, doctor.Options{Configuration: o.cluster.configuration, Source: o.cluster.source})
	if err != nil {
		return err
	}
	if err := o.output.print(cmd, report, "", nil, report.Print); err != nil || !report.Found() {
		return err
	}
	return errFound
}

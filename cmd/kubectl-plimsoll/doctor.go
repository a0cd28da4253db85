package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
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
		Short: "Check what keeps the scheduler from placing pods by load",
		Long: `Checks the configuration, the source of load, the nodes' load, clocks, values, the scheduler's rights, the scheduler that runs, and
pods that no scheduler looks at. Under each check that is not fine stands what to do. Nothing is changed.

Run in the scheduler's pod, it checks with the scheduler's own rights, network, token and authorities. Elsewhere, a source with the
address of a Service is reached through the API server's proxy, which passes on no token, and rights are those of the scheduler's
account, as which you must be allowed to act; --as chooses another.

Exit codes: 0 all is fine, 1 a check is not, 2 the API server cannot be asked.`,
		Example: `  # Check the scheduler of the cluster
  kubectl plimsoll doctor

  # Check with the scheduler's own rights, network, token and authorities
  kubectl -n plimsoll-system exec deploy/plimsoll -- kubectl-plimsoll doctor

  # Check a configuration before it is used, with a source that a port-forward makes reachable
  kubectl plimsoll doctor --config scheduler.yaml --source-address http://localhost:9090

  # Check the rights of a service account
  kubectl plimsoll doctor --as system:serviceaccount:plimsoll-system:plimsoll

  # Show what is not fine, for a script
  kubectl plimsoll doctor -o json | jq '.checks[] | select(.status != "ok")'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.NoArgs(cmd, args); err != nil {
				return usageError{err}
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	o.cluster.addTo(command.Flags())
	o.output.addTo(command.Flags())
	return command
}

func (o *doctorOptions) run(cmd *cobra.Command) error {
	if err := o.output.validate(); err != nil {
		return err
	}
	conn, err := o.cluster.connect(cmd.Context())
	if err != nil {
		return usageError{err}
	}
	report, err := doctor.Run(cmd.Context(), conn, doctor.Options{Configuration: o.cluster.configuration, Source: o.cluster.source})
	if _, ok := errors.AsType[*live.OptionError](err); ok {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	if err := o.output.print(cmd.OutOrStdout(), report, func(w io.Writer, s style) error { return printReport(w, s, report) }); err != nil {
		return err
	}
	if report.Found() {
		return errFound
	}
	return nil
}

// mark returns the sign of a status, in its colour.
func (s style) mark(status doctor.Status) string {
	const reset = "\x1b[0m"
	sign, colour := "✓", "\x1b[32m"
	switch status {
	case doctor.Warning:
		sign, colour = "!", "\x1b[33m"
	case doctor.Error:
		sign, colour = "✗", "\x1b[31m"
	}
	if !s.colour {
		return sign
	}
	return colour + sign + reset
}

// printReport prints one line for each check, and under each that is not OK what to do.
func printReport(w io.Writer, s style, report *doctor.Report) error {
	var b strings.Builder
	if report.Configuration != "" {
		fmt.Fprintf(&b, "Configuration: %s\n", report.Configuration)
	}
	group, advised, seen := "", false, map[doctor.Advice]bool{}
	for i, c := range report.Checks {
		if c.Group != group {
			group = c.Group
			fmt.Fprintf(&b, "\n%s\n", strings.ToUpper(group))
		}
		fmt.Fprintf(&b, "%s %s\n", s.mark(c.Status), c.Message)
		if next := i + 1; next < len(report.Checks) && report.Checks[next].ID == c.ID && slices.Equal(report.Checks[next].Advice, c.Advice) {
			continue // it stands once, under the last check that it is for
		}
		for _, a := range c.Advice {
			if seen[a] && a.YAML+a.Command != "" {
				b.WriteString("    As above.\n")
				continue
			}
			seen[a] = true
			fmt.Fprintf(&b, "    %s\n", a.Text)
			indent(&b, a.Command)
			indent(&b, a.YAML)
			advised = advised || a.YAML != "" && c.Group != "rights"
		}
	}
	if advised && report.Restart != "" {
		fmt.Fprintf(&b, "\nThe scheduler reads a changed configuration when it restarts:\n      %s\n", report.Restart)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// indent writes the lines of a text to copy, if there is any.
func indent(b *strings.Builder, text string) {
	if text == "" {
		return
	}
	for line := range strings.Lines(strings.TrimSuffix(text, "\n") + "\n") {
		b.WriteString("      " + line)
	}
}

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	componentversion "k8s.io/component-base/version"
	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/internal/program"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/output"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/shadow"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/whatif"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
	"github.com/plimsoll-scheduler/plimsoll/pkg/ui"
)

// exitCode is 0 for nil, 1 for output.ErrProblems, and 2 for other errors.
func exitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, output.ErrProblems):
		return 1
	}
	return 2
}

// report prints the error, unless the command has printed what it found.
func report(w io.Writer, command *cobra.Command, err error) {
	if err == nil || errors.Is(err, output.ErrProblems) {
		return
	}
	output.Lines(w, strings.Split("Error: "+err.Error(), "\n")...)
	if _, ok := errors.AsType[*cluster.OptionError](err); ok {
		fmt.Fprintf(w, "See '%s --help' for usage.\n", command.CommandPath())
	}
}

func newCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "kubectl-plimsoll",
		Short: "See why the Plimsoll scheduler decides as it does",
		Long: `Answers why the Plimsoll scheduler decides as it does, from the code that decides.
No command changes the cluster.

Use the command of the scheduler's Kubernetes minor version, which --version names: stock plugins differ between minor versions.

Exit codes: 0 fine, 1 something was found, 2 it could not be done.`,
		Version:           program.Version(version),
		SilenceUsage:      true, // an error has one line
		SilenceErrors:     true, // main prints it
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl plimsoll"},
		PersistentPreRunE: silenceLog,
	}
	command.SetVersionTemplate("Plimsoll {{.Version}}\nKubernetes " + componentversion.Get().GitVersion + "\n")
	command.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cluster.OptionErrorf("%w", err) })
	addVerbosity(command.PersistentFlags())
	r := newRooms()
	addGroup(command, &cobra.Group{ID: "cluster", Title: "Look at a running cluster:"}, append([]*cobra.Command{
		doctor.Command(r.checks...),
		top.Command(r.moves.Origins),
		ui.Command(r.moves, r.checks...),
		explain.Command(r.moves.Origins),
		whatif.Command(),
		shadow.Command(),
	}, r.commands...)...)
	addGroup(command, &cobra.Group{ID: "replay", Title: "Compare policies:"},
		replay.Command(r.movers...),
	)
	return command
}

// rooms are what capabilities add to commands.
type rooms struct {
	commands []*cobra.Command
	// checks are for doctor and the page, and movers for replay.
	checks []doctor.Supplier
	movers []sim.MoverKind
	moves  ui.Moves
}

func newRooms() (r rooms) {
	addRebalancer(&r)
	return r
}

// addGroup adds commands that the help shows together.
func addGroup(command *cobra.Command, group *cobra.Group, commands ...*cobra.Command) {
	command.AddGroup(group)
	for _, c := range commands {
		c.GroupID = group.ID
		command.AddCommand(c)
	}
}

// addVerbosity adds -v, as kubectl has it.
func addVerbosity(flags *pflag.FlagSet) {
	all := flag.NewFlagSet("", flag.ContinueOnError)
	klog.InitFlags(all)
	verbosity := all.Lookup("v")
	verbosity.Usage = "verbosity of the log, which is silent without this flag"
	flags.AddGoFlag(verbosity)
}

// silenceLog keeps what plugins and sources log out of tables, unless -v is given.
func silenceLog(command *cobra.Command, _ []string) error {
	if !command.Flags().Changed("v") {
		klog.SetLogger(logr.Discard())
	}
	return nil
}

package main

import (
	"cmp"
	"errors"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// usageError is an error in what the user wrote.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// exitCode is 2 for an error in what the user wrote, and 1 for any other.
func exitCode(err error) int {
	var usage usageError
	if errors.As(err, &usage) {
		return 2
	}
	return 1
}

func newCommand() *cobra.Command {
	command := &cobra.Command{
		Use:           "kubectl-plimsoll",
		Short:         "Tools for operators of the Plimsoll scheduler",
		Version:       programVersion(),
		SilenceUsage:  true, // an error has one line
		SilenceErrors: true, // main prints it
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl plimsoll"},
	}
	command.SetVersionTemplate("Plimsoll {{.Version}}\n")
	command.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	command.AddCommand(newReplayCommand())
	return command
}

func programVersion() string {
	built := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		built = info.Main.Version
	}
	return cmp.Or(version, built)
}

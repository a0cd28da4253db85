// kubectl-plimsoll is a kubectl plugin for operators of Plimsoll.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// version is set by the linker.
var version string

// gcPercent is high because a replay allocates much.
const gcPercent = 400

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	command, err := newCommand().ExecuteContextC(ctx)
	report(os.Stderr, command, err)
	os.Exit(exitCode(err))
}

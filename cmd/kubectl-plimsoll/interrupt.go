package main

import (
	"context"
	"os"
)

// interrupted is the exit code after a second interrupt: 128 and SIGINT, as in shells.
const interrupted = 130

// untilInterrupted returns a context that ends at the first signal. At the second one it calls exit. The default handler would
// not do: a script's background process starts with SIGINT ignored, and would ignore the second signal.
func untilInterrupted(ctx context.Context, signals <-chan os.Signal, exit func(code int)) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		<-signals
		cancel()
		<-signals
		exit(interrupted)
	}()
	return ctx
}

package main

import (
	"context"
	"os"
)

// interrupted is the exit code after a second interrupt, as a shell has it for SIGINT.
const interrupted = 130

// untilInterrupted returns a context that ends at the first signal. At the second one it calls exit. It does not restore the
// default handler: a script's background process begins with SIGINT ignored, and would ignore the second.
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

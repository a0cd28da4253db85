package main

import (
	"os"
	"syscall"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func TestInterrupts(t *testing.T) {
	signals, codes := make(chan os.Signal), make(chan int)
	ctx := untilInterrupted(t.Context(), signals, func(code int) { codes <- code })
	if ctx.Err() != nil {
		t.Errorf("before any signal: %v", ctx.Err())
	}
	signals <- syscall.SIGINT
	<-ctx.Done()
	select {
	case code := <-codes:
		t.Errorf("the first signal ends the program with %d", code)
	default:
	}
	signals <- syscall.SIGTERM
	check.Equal(t, "exit code after the second signal", interrupted, <-codes)
}

package cluster

import (
	"context"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// TestProcess_Failed asks for the state of a process that takes its time to end.
func TestProcess_Failed(t *testing.T) {
	dir := t.TempDir()
	p := &Process{
		name: "stubborn", path: "/bin/sh", args: []string{"-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"},
		dir: dir, log: filepath.Join(dir, "log"), ready: func(context.Context) error { return nil },
	}
	check.OK(t, p.Start(t.Context()))
	for log := ""; log == ""; time.Sleep(time.Millisecond) {
		log, _ = p.Log()
	}
	r := p.run
	stopped := make(chan error)
	go func() { stopped <- p.Stop() }()
	asked := make(chan error)
	go func() {
		time.Sleep(100 * time.Millisecond) // Stop waits by now
		asked <- p.Failed()
	}()
	select {
	case err := <-asked:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("Failed waits for Stop")
	}
	r.signal(syscall.SIGKILL)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

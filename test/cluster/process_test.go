package cluster

import (
	"context"
	"errors"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster/build"
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

// TestRunOnPort has another process take the port twice, or always.
func TestRunOnPort(t *testing.T) {
	for taken, runs := range map[int]bool{2: true, tries: false} {
		c, begun := &Cluster{dir: t.TempDir(), options: Options{BinDir: "/bin"}}, 0
		p, _, err := c.runOnPort(t.Context(), build.Part{Name: "sh"}, func(int) *Process {
			begun++
			script, ready := "echo address already in use; exit 1", errors.New("it does not listen")
			if begun > taken {
				script, ready = "while :; do sleep 0.1; done", nil
			}
			return c.process("listens", func(context.Context) error { return ready }, "-c", script)
		})
		check.Equal(t, "it runs", runs, err == nil)
		check.OK(t, c.Failed())
		check.OK(t, p.Kill())
		if crash, err := p.Crash(); err != nil || crash != "" {
			t.Errorf("it crashed with %q, error %v", crash, err)
		}
	}
}

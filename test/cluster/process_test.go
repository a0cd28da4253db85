package cluster

import (
	"context"
	"errors"
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

// TestProcess_StopBeforeRestart stops a supervised process after it was seen to end, and before it starts again.
func TestProcess_StopBeforeRestart(t *testing.T) {
	dir := t.TempDir()
	p := &Process{
		name: "short", path: "/bin/sh", args: []string{"-c", "exit 1"}, dir: dir, log: filepath.Join(dir, "log"),
		ready: func(context.Context) error { return nil },
	}
	for _, stop := range []func() error{p.Stop, p.Kill} {
		r := check.Value(p.launch(nil))(t)
		<-r.done
		if p.ended() != r {
			t.Fatal("nobody sees that the process has ended")
		}
		check.OK(t, stop())
		if again, err := p.launch(r); err == nil {
			t.Errorf("process %d runs after the end of the test", again.pid)
			check.OK(t, p.Kill())
		}
	}
	r := check.Value(p.launch(nil))(t) // which is supervised again
	<-r.done
	again := check.Value(p.launch(p.ended()))(t)
	if _, err := p.launch(r); err == nil {
		t.Error("two processes were started in place of one")
	}
	<-again.done
	check.OK(t, p.Kill())
}

// TestRunReplica has another process take the port twice, or always.
func TestRunReplica(t *testing.T) {
	for taken, runs := range map[int]bool{2: true, tries.Steps: false} {
		c, begun := &Cluster{dir: t.TempDir(), options: Options{BinDir: "/bin"}}, 0
		p, err := c.runReplica(t.Context(), "sh", "http", func(int) *Process {
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

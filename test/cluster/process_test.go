package cluster

import (
	"context"
	"net"
	"path/filepath"
	"slices"
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
		check.OK(t, err)
	case <-time.After(time.Minute):
		t.Error("Failed waits for Stop")
	}
	r.signal(syscall.SIGKILL)
	check.OK(t, <-stopped)
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

// TestFreePort shows that a port is given out once, that no other process can claim it meanwhile, and that it is free.
func TestFreePort(t *testing.T) {
	var given []int
	for range 200 {
		given = append(given, check.Value(FreePort())(t))
	}
	slices.Sort(given)
	check.Equal(t, "different ports", len(given), len(slices.Compact(slices.Clone(given))))
	for _, port := range given {
		if l, err := net.Listen("tcp", address(port+portRange)); err == nil {
			t.Errorf("port %d was given out, but another process may claim it, error on closing %v", port, l.Close())
		}
		check.OK(t, check.Value(net.Listen("tcp", address(port)))(t).Close())
	}
}

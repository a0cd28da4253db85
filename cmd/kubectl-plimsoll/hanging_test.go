//go:build unix

package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// asProgram is an environment variable that makes the test binary the program.
const asProgram = "PLIMSOLL_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// hangingServer returns the URL of an API server that answers nothing. The channel is closed at the first request.
func hangingServer(t *testing.T) (url string, asked <-chan struct{}) {
	t.Helper()
	first := make(chan struct{})
	closeFirst := sync.OnceFunc(func() { close(first) })
	server := check.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		closeFirst()
		<-r.Context().Done()
	}))
	return server.URL, first
}

// terminateProgram starts the program, waits for ready, and sends SIGTERM until it ends. It returns how the program ended.
func terminateProgram(t *testing.T, ready func(), args ...string) syscall.WaitStatus {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0], args...)
	command.Env = append(os.Environ(), asProgram+"=yes")
	output := &strings.Builder{}
	command.Stdout, command.Stderr = output, output
	check.OK(t, command.Start())
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	ready()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for range 6000 {
		select {
		case err := <-ended:
			t.Logf("ended with %v and output %q", err, output)
			return command.ProcessState.Sys().(syscall.WaitStatus)
		case <-again.C:
			if err := command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
				t.Fatal(err)
			}
		}
	}
	_ = command.Process.Kill()
	t.Fatal("1000 signals do not end the program")
	return 0
}

// No context ends the reading of a kubeconfig: the second signal has to.
func TestProgram_SecondSignal(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	check.OK(t, syscall.Mkfifo(kubeconfig, 0o600))
	writer := make(chan *os.File, 1)
	ended := terminateProgram(t, func() {
		f, err := os.OpenFile(kubeconfig, os.O_WRONLY, 0) // returns once the program reads
		check.OK(t, err)
		writer <- f
	}, "what-if", "--pending", "--kubeconfig", kubeconfig)
	_ = (<-writer).Close()
	check.Equal(t, "signal that ended the program", syscall.SIGTERM, ended.Signal())
}

func TestWhatIf_Timeout(t *testing.T) {
	server, _ := hangingServer(t)
	_, err := execute(t.Context(), "what-if", "--pending", "--kubeconfig", kubeconfigFor(t, server), "--timeout", "10ms")
	if err == nil || exitCode(err) != 2 || !errors.Is(err, context.DeadlineExceeded) ||
		!strings.Contains(err.Error(), "not done within --timeout 10ms; write fewer --replicas, a longer --timeout, or --timeout 0 for no limit") {
		t.Errorf("error %v with exit code %d, want 2 and the flag to change", err, exitCode(err))
	}
}

// Without a timeout, an API server that does not answer is waited for until the user interrupts.
func TestWhatIf_NoTimeout(t *testing.T) {
	server, asked := hangingServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	_, err := execute(ctx, "what-if", "--pending", "--kubeconfig", kubeconfigFor(t, server), "--timeout", "0")
	if !errors.Is(err, context.Canceled) || exitCode(err) != 2 || strings.Contains(err.Error(), "--timeout") {
		t.Errorf("error %v with exit code %d, want that the user canceled", err, exitCode(err))
	}
}

//go:build servers && linux

package servers

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

const (
	readyTimeout = 2 * time.Minute
	stopTimeout  = 20 * time.Second
	pollInterval = 200 * time.Millisecond
)

// process is a program that ends with its test, or with this process.
type process struct {
	name, log string
	cmd       *exec.Cmd
	done      chan struct{}
}

// run starts a program with a folder of its own, and waits until the URL answers 200.
func run(t *testing.T, name, ready string, command ...string) *process {
	t.Helper()
	p := &process{name: name, log: filepath.Join(t.TempDir(), "log"), done: make(chan struct{})}
	log := check.Value(os.Create(p.log))(t)
	defer func() { _ = log.Close() }()
	p.cmd = exec.Command(command[0], command[1:]...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = t.TempDir(), log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// The kernel sends Pdeathsig when the thread that started the process ends, so this thread must stay.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
			close(p.done)
		}
	}()
	check.OK(t, <-started)
	t.Cleanup(p.stop)
	p.wait(t, ready)
	return p
}

func (p *process) wait(t *testing.T, ready string) {
	t.Helper()
	var last error
	for end := time.Now().Add(readyTimeout); time.Now().Before(end); time.Sleep(pollInterval) {
		if _, last = get(ready); last == nil {
			return
		}
		select {
		case <-p.done:
			t.Fatalf("%s ended at once: %s", p.name, p.tail())
		default:
		}
	}
	t.Fatalf("%s is not ready after %s: %v: %s", p.name, readyTimeout, last, p.tail())
}

// stop ends the process. It may be called twice.
func (p *process) stop() {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		_ = p.cmd.Process.Signal(signal)
		select {
		case <-p.done:
			return
		case <-time.After(stopTimeout):
		}
	}
}

func (p *process) tail() string {
	log, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(log[max(0, len(log)-3000):])
}

func get(url string) (body string, err error) {
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	bytes, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %.300s", url, response.Status, bytes)
	}
	return string(bytes), err
}

// address returns a free address of the loopback interface.
func address(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", check.Value(cluster.FreePort())(t))
}

// file writes a file of a new folder, and returns its path.
func file(t *testing.T, lines ...string) string {
	t.Helper()
	path := check.File(t, "config.yaml", strings.Join(lines, "\n")+"\n")
	return path
}

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// The timeouts only end what would never succeed. They are generous because tests share machines.

	// startTimeout is how long a process may take to become ready.
	startTimeout = 3 * time.Minute
	// stopTimeout is how long a process may take to end after a signal.
	stopTimeout = 30 * time.Second
	// waitTimeout is how long the Wait methods of a Cluster wait.
	waitTimeout = 5 * time.Minute
	// pollInterval is the time between two attempts of anything that waits.
	pollInterval = 100 * time.Millisecond
	// tailBytes is how much of a process's log an error shows.
	tailBytes = 2000

	// containerUser and containerGroup are as on OpenShift: an arbitrary user ID, in root's group.
	containerUser  = 1000650000
	containerGroup = 0
)

// Process is one program of a cluster. It can be ended and started again, on the same port and with the same data.
type Process struct {
	name string
	path string
	args []string
	// dir is the working directory, log the file that stdout and stderr are appended to.
	dir string
	log string
	// root is the root folder of a confined process, and env its environment. path and dir are then relative to root. Other processes
	// see all files and inherit this process's environment.
	env  []string
	root string
	// ready returns an error while the process cannot be used yet.
	ready func(ctx context.Context) error

	// changing is held while the process is started or ended, mu only while a field below is read or written. Every wait calls Failed,
	// which must not wait itself.
	changing sync.Mutex
	mu       sync.Mutex
	// run is nil before Start and after Stop or Kill.
	run *run
	// closed forbids another Start.
	closed bool
	// supervised means that the process is started again when it ends by itself.
	supervised bool
}

// run is one life of a process.
type run struct {
	pid int
	// done is closed when the process has ended; err is valid from then on.
	done chan struct{}
	err  error
}

// Start starts the process and waits until it can be used.
func (p *Process) Start(ctx context.Context) error {
	r, err := p.launch(nil)
	if err != nil {
		return fmt.Errorf("starting %s: %w", p.name, err)
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, pollInterval, startTimeout, true, func(ctx context.Context) (bool, error) {
		if err := p.exited(r); err != nil {
			return false, err
		}
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		last = p.ready(ctx)
		return last == nil, nil
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("starting %s: %w", p.name, context.Cause(ctx))
	case wait.Interrupted(err):
		return fmt.Errorf("starting %s: not ready after %s: %w%s", p.name, startTimeout, last, p.tail())
	}
	return err
}

// Stop sends SIGTERM and waits for the process to end. After stopTimeout it kills the process and returns an error.
func (p *Process) Stop() error { return p.end(syscall.SIGTERM, false) }

// Kill sends SIGKILL and waits for the process to end, for at most stopTimeout.
func (p *Process) Kill() error { return p.end(syscall.SIGKILL, false) }

// Pause stops the process with SIGSTOP: it keeps its connections, but does nothing until Resume. On a busy machine the signal takes
// a while: until one thread has handled it, the others go on. Pause waits for that where /proc tells it.
func (p *Process) Pause() {
	p.signal(syscall.SIGSTOP)
	p.mu.Lock()
	defer p.mu.Unlock()
	for end := time.Now().Add(stopTimeout); p.run != nil && time.Now().Before(end); time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.run.pid))
		if _, state, _ := strings.Cut(string(stat), ") "); err != nil || strings.HasPrefix(state, "T") {
			return
		}
	}
}

// Resume lets a paused process go on.
func (p *Process) Resume() { p.signal(syscall.SIGCONT) }

func (p *Process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run != nil {
		p.run.signal(s)
	}
}

// Supervise starts the process again whenever it ends by itself, as a kubelet does, until ctx ends. Failed then returns no error.
// After Stop or Kill, it waits for another Start.
func (p *Process) Supervise(ctx context.Context) {
	p.mu.Lock()
	p.supervised = true
	p.mu.Unlock()
	go wait.UntilWithContext(ctx, func(context.Context) {
		if r := p.ended(); r != nil {
			_, _ = p.launch(r) // it fails once the process or the cluster is stopped
		}
	}, pollInterval)
}

// ended returns the run that has ended by itself; nil if there is none.
func (p *Process) ended() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil || p.exited(p.run) == nil {
		return nil
	}
	return p.run
}

// Crash returns what a panic wrote to the log of the process; empty if there was none. Failed tells of no supervised process.
func (p *Process) Crash() (string, error) {
	log, err := p.Log()
	for _, begins := range []string{"\npanic: ", "\nfatal error: "} {
		if i := strings.Index("\n"+log, begins); i >= 0 {
			return log[i:min(i+5000, len(log))], err
		}
	}
	return "", err
}

func (p *Process) close() { _ = p.end(syscall.SIGTERM, true) }

// Failed returns an error if the process has ended by itself.
func (p *Process) Failed() error {
	p.mu.Lock()
	r, supervised := p.run, p.supervised
	p.mu.Unlock()
	if r == nil || supervised {
		return nil
	}
	return p.exited(r)
}

// Log returns what the process has written so far.
func (p *Process) Log() (string, error) {
	data, err := os.ReadFile(p.log)
	return string(data), err
}

// launch starts the process in place of a run that has ended, or of none. It fails if the last run is another: Start or Stop came
// first.
func (p *Process) launch(ended *run) (*run, error) {
	p.changing.Lock()
	defer p.changing.Unlock()
	p.mu.Lock()
	closed, last := p.closed, p.run
	p.mu.Unlock()
	switch {
	case closed:
		return nil, errors.New("the cluster is stopped")
	case last == nil && ended != nil:
		return nil, errors.New("it is stopped")
	case last != ended:
		return nil, errors.New("it is running already")
	}
	if p.root == "" {
		if err := os.MkdirAll(p.dir, 0o700); err != nil {
			return nil, err
		}
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()

	// In a separate process group, a part does not get the Ctrl-C of the terminal. Stop ends the parts in order.
	cmd := exec.Command(p.path, p.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, log, log
	cmd.SysProcAttr = dieWithParent(&syscall.SysProcAttr{Setpgid: true})
	if p.root != "" {
		cmd.Env = p.env
		confine(cmd.SysProcAttr, p.root)
	}
	r := &run{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// On Linux, Pdeathsig is sent when the thread that started the process ends, so this thread must stay.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		r.pid = cmd.Process.Pid
		started <- nil
		r.err = cmd.Wait()
		close(r.done)
	}()
	if err := <-started; err != nil {
		if p.root != "" && errors.Is(err, os.ErrPermission) {
			err = fmt.Errorf("%w: changing the root folder and the user takes root, or the right to create user namespaces", err)
		}
		return nil, err
	}
	p.mu.Lock()
	p.run = r
	p.mu.Unlock()
	return r, nil
}

// end sends a signal to the process, and SIGKILL if it is still there after stopTimeout. It returns an error in the latter case.
func (p *Process) end(signal syscall.Signal, forGood bool) error {
	p.changing.Lock()
	defer p.changing.Unlock()
	p.mu.Lock()
	p.closed = p.closed || forGood
	r := p.run
	p.run = nil
	p.mu.Unlock()
	if r == nil {
		return nil
	}
	r.signal(signal)
	r.signal(syscall.SIGCONT) // a paused process gets no signal but SIGKILL
	if r.endsWithin(stopTimeout) {
		return nil
	}
	r.signal(syscall.SIGKILL)
	if !r.endsWithin(stopTimeout) {
		return fmt.Errorf("%s did not end within %s of SIGKILL%s", p.name, stopTimeout, p.tail())
	}
	return fmt.Errorf("%s did not end within %s of signal %q and was killed%s", p.name, stopTimeout, signal, p.tail())
}

func (r *run) endsWithin(timeout time.Duration) bool {
	select {
	case <-r.done:
		return true
	case <-time.After(timeout):
		return false
	}
}

// signal signals the process and its children. It does nothing if the process has ended, because its ID may have been reused.
func (r *run) signal(s syscall.Signal) {
	select {
	case <-r.done:
	default:
		_ = syscall.Kill(-r.pid, s)
	}
}

func (p *Process) exited(r *run) error {
	select {
	case <-r.done:
		if r.err == nil {
			return fmt.Errorf("%s ended by itself%s", p.name, p.tail())
		}
		return fmt.Errorf("%s ended by itself: %w%s", p.name, r.err, p.tail())
	default:
		return nil
	}
}

func (p *Process) tail() string {
	log, _ := p.Log()
	text := strings.TrimSpace(log[max(len(log)-tailBytes, 0):])
	if text == "" {
		return ""
	}
	return fmt.Sprintf("; the end of %s:\n\t%s", filepath.Base(p.log), strings.ReplaceAll(text, "\n", "\n\t"))
}

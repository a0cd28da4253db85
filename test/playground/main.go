// The playground shows the scheduler at work on this machine. It builds missing programs, starts a real control plane, and places
// pods by measured load. It fails if a scenario does not end as it must. With KEEP=1 in the environment the cluster stays up
// afterwards.
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster/build"
)

//go:embed scheduler.yaml
var schedulerConfig string

// tryIt is what KEEP=1 prints in the end.
//
//go:embed keep.txt
var tryIt string

// The names and values of scheduler.yaml.
const (
	plimsollProfile = "plimsoll"
	stockProfile    = "default-scheduler"
	target          = 0.40
	window          = 10 * time.Second
)

func main() {
	// Without a handler, SIGPIPE would end this process before its cleanup if the reader of its output ends.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, os.Stdout, os.Getenv("KEEP") == "1")
	interrupted := ctx.Err() != nil && !errors.Is(err, errWrong)
	stop()
	switch {
	case err == nil:
	case interrupted:
		fmt.Fprintln(os.Stderr, "Interrupted; all parts are stopped and their files removed.")
		os.Exit(130)
	default:
		fmt.Fprintln(os.Stderr, "playground:", err)
		os.Exit(1)
	}
}

type playground struct {
	*cluster.Cluster
	progress progress
	// kubectlPlimsoll is the path of the program of that name.
	kubectlPlimsoll string
}

func run(ctx context.Context, out *os.File, keep bool) (err error) {
	p := &playground{progress: progress{out: out, start: time.Now()}}
	scenarios, err := chosen(os.Getenv("SCENARIOS"))
	if err != nil {
		return err
	}
	options := cluster.Options{Scheduler: schedulerConfig}
	programs := append(options.Parts(), "kubectl-plimsoll")
	for _, s := range scenarios {
		programs = append(programs, s.programs...)
	}
	if options.BinDir, err = build.Programs(ctx, out, programs...); err != nil {
		return err
	}
	p.kubectlPlimsoll = filepath.Join(options.BinDir, "kubectl-plimsoll")

	p.progress.say("starting etcd, kube-apiserver, KWOK, Prometheus and bin/kube-scheduler")
	if p.Cluster, err = cluster.Start(ctx, options); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()

	page := page{out: out, Style: terminal.StyleOf(out)}
	var wrong []string
	for i, s := range scenarios {
		if i > 0 {
			if err := p.Clear(ctx); err != nil {
				return err
			}
		}
		var r result
		if err := attempt(func() { r = s.run(ctx, p) }); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		wrong = append(wrong, show(page, s.name, r)...)
	}
	failures := verdict(page, len(scenarios), wrong)
	if !keep {
		return failures
	}
	if err := p.explainKeeping(ctx); err != nil {
		return err
	}
	// The user ends it with Ctrl-C.
	<-ctx.Done()
	return failures
}

func (p *playground) explainKeeping(ctx context.Context) error {
	kubectl := "kubectl"
	if _, err := exec.LookPath(kubectl); err != nil {
		binDir, err := build.Programs(ctx, p.progress.out, "kubectl")
		if err != nil {
			return err
		}
		kubectl = filepath.Join(binDir, "kubectl")
	}
	_, err := fmt.Fprintf(p.progress.out, tryIt, p.AdminKubeconfig, kubectl, p.Endpoints.Prometheus, p.kubectlPlimsoll,
		p.SchedulerConfiguration(), strings.Join(whatIfArgs(), " "))
	return err
}

// exitFound is the exit code of kubectl plimsoll if it has found something, and has printed it.
const exitFound = 1

// plimsoll runs kubectl plimsoll.
func (p *playground) plimsoll(ctx context.Context, args ...string) (string, error) {
	args = append(args, "--kubeconfig="+p.AdminKubeconfig, "--config="+p.SchedulerConfiguration())
	cmd := exec.CommandContext(ctx, p.kubectlPlimsoll, args...)
	cmd.Env = append(os.Environ(), "KUBERNETES_SERVICE_HOST=") // this machine may be a pod of another cluster
	output, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == exitFound {
		err = nil
	} else if ok {
		err = fmt.Errorf("kubectl-plimsoll %s: %w: %s", args[0], err, exit.Stderr)
	}
	return string(output), err
}

// progress writes lines with the time since start.
type progress struct {
	out   io.Writer
	start time.Time
}

func (p progress) say(format string, args ...any) {
	_, _ = fmt.Fprintf(p.out, "%5.1f s  %s\n", time.Since(p.start).Seconds(), fmt.Sprintf(format, args...))
}

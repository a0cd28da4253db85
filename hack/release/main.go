// Command release makes the files of a release, and pushes its images and its chart. The Makefile's targets release and
// push call it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
)

const usage = `Usage:
  release make -version v1.2.3 -minors "1.37 1.36" -platforms "linux/amd64 darwin/arm64" -out FOLDER
  release push FOLDER
`

var errNoFolder = errors.New("DIST is empty: set it to the folder of the release, or leave it out for dist")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) > 0 && args[0] == "make":
		flags := flag.NewFlagSet("make", flag.ContinueOnError)
		version := flags.String("version", "", "the semantic version, such as v1.2.3")
		minors := flags.String("minors", "", "minor versions of Kubernetes")
		platforms := flags.String("platforms", "", "platforms, such as linux/amd64")
		out := flags.String("out", "", "the folder to write")
		pgo := flags.String("pgo", "", "1 builds with the profile of processor time; 0 without, which takes less time")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		if *out == "" {
			return errNoFolder
		}
		folder, err := filepath.Abs(*out)
		if err != nil {
			return err
		}
		repository, err := output(ctx, ".", "git", "rev-parse", "--show-toplevel")
		if err != nil {
			return err
		}
		r, err := newRelease(ctx, repository, *version, strings.Fields(*minors), strings.Fields(*platforms))
		if err != nil {
			return err
		}
		r.pgo = *pgo
		return r.make(ctx, folder)
	case len(args) == 2 && args[0] == "push":
		if args[1] == "" {
			return errNoFolder
		}
		return push(ctx, args[1])
	}
	return fmt.Errorf("want make or push\n%s", usage)
}

// output returns what a program prints, without space around it.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	printed, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimRight(string(printed), "\n"), nil
}

// command runs a program in the folder of the commit's files, with the environment of this process and more variables.
func (r *release) command(ctx context.Context, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = r.root
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", filepath.Base(name), strings.Join(args, " "), err)
	}
	return nil
}

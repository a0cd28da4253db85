package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	componentversion "k8s.io/component-base/version"

	"github.com/plimsoll-scheduler/plimsoll/internal/program"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/output"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/manifests/documented"
)

// execute runs the command with the arguments, and returns what it writes.
func execute(ctx context.Context, args ...string) (written string, err error) {
	return check.Execute(ctx, newCommand(), args...)
}

func TestExitCode(t *testing.T) {
	for _, tt := range []struct {
		err   error
		code  int
		print string
	}{
		{nil, 0, ""},
		{output.ErrProblems, 1, ""},
		{fmt.Errorf("wrapped: %w", output.ErrProblems), 1, ""},
		{errors.New("no cluster"), 2, "Error: no cluster\n"},
		{cluster.OptionErrorf("--top: -1"), 2, "Error: --top: -1\nSee 'kubectl plimsoll --help' for usage.\n"},
	} {
		if code := exitCode(tt.err); code != tt.code {
			t.Errorf("%v: exit code %d, want %d", tt.err, code, tt.code)
		}
		var out bytes.Buffer
		report(&out, newCommand(), tt.err)
		check.Equal(t, fmt.Sprint(tt.err, ": printed"), tt.print, out.String())
	}
}

func TestCommand_Version(t *testing.T) {
	out, err := execute(t.Context(), "--version")
	if want := "Plimsoll " + program.Version("") + "\nKubernetes " + componentversion.Get().GitVersion + "\n"; err != nil ||
		out != want {
		t.Errorf("%v: got %q, want %q", err, out, want)
	}
}

func TestCommand_Help(t *testing.T) {
	out := check.Value(execute(t.Context()))(t)
	for _, part := range []string{
		"kubectl plimsoll [command]", "Look at a running cluster:\n  ", "Compare policies:\n  replay", "0 fine, 1 something was found, 2 it could not be done", "-v, --v",
		"No command changes the cluster.",
	} {
		check.Contains(t, out, part)
	}
	command := newCommand()
	for _, c := range command.Commands() {
		if c.GroupID == "" {
			t.Errorf("%s is in no group of the help", c.Name())
		}
		checkHelp(t, c)
	}
}

// checkHelp expects a short help and examples of each command that does something.
func checkHelp(t *testing.T, c *cobra.Command) {
	t.Helper()
	if c.Runnable() && (c.Short == "" || c.Example == "") {
		t.Errorf("%s has no short help, or no example", c.CommandPath())
	}
	for line := range strings.Lines(c.Example) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") && !strings.Contains(line, "kubectl") &&
			!strings.HasPrefix(line, "-") {
			t.Errorf("%s: an example that is no kubectl command: %s", c.CommandPath(), line)
		}
	}
	for _, sub := range c.Commands() {
		checkHelp(t, sub)
	}
}

func TestDocs_Flags(t *testing.T) {
	documented.CheckFlags(t, "../..", newCommand(), "kubectl plimsoll", "kubectl-plimsoll")
}

func TestCommand_UnknownFlag(t *testing.T) {
	_, err := execute(t.Context(), "explain", "p", "--color")
	if _, ok := errors.AsType[*cluster.OptionError](err); !ok || exitCode(err) != 2 {
		t.Errorf("error %v with exit code %d", err, exitCode(err))
	}
}

// kubeconfigFor returns a kubeconfig file for a server, with two contexts.
func kubeconfigFor(t *testing.T, server string) string {
	t.Helper()
	return check.File(t, "kubeconfig", check.Kubeconfig(server))
}

// The help of a command has its own flags, and those of the cluster.
func TestCommand_HelpOfFlags(t *testing.T) {
	help := check.Value(execute(t.Context(), "top", "nodes", "--help"))(t)
	check.Contains(t, help, "--sort", "--kubeconfig", "--source-address", "--scheduler ", "-v, --v")
}

// The shell completes commands and flags.
func TestCompletion(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"expl"}, "explain\t"},
		{[]string{"top", "nodes", "--sort"}, "--sort\t"},
	} {
		out, err := execute(t.Context(), append([]string{"__complete"}, tt.args...)...)
		if err != nil || !strings.HasPrefix(out, tt.want) {
			t.Errorf("%q: completed %q, error %v, want %q", tt.args, out, err, tt.want)
		}
	}
}

// TestCluster_NoAdviceWithoutAPIServer expects no flags that choose a scheduler to be advised where the API server is down.
func TestCluster_NoAdviceWithoutAPIServer(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	_, err := execute(t.Context(), "top", "--kubeconfig=/dev/null", "--server="+server.URL)
	if err == nil || !strings.Contains(err.Error(), "connection refused") || strings.Contains(err.Error(), "--scheduler") {
		t.Errorf("%v, want that the connection was refused, without advice", err)
	}
}

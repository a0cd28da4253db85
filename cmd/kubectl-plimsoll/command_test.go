package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
		if out.String() != tt.print {
			t.Errorf("%v: printed %q, want %q", tt.err, out.String(), tt.print)
		}
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
	out, err := execute(t.Context())
	check.OK(t, err)
	for _, part := range []string{
		"kubectl plimsoll [command]", "Look at a running cluster:\n  ", "Compare policies:\n  replay", "0 fine, 1 something was found, 2 it could not be done", "-v, --v",
		"No command changes the cluster.",
	} {
		if !strings.Contains(out, part) {
			t.Errorf("the help does not say %q:\n%s", part, out)
		}
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

// namesFile matches the name and the usage of a flag whose value is a file or a folder.
var namesFile = regexp.MustCompile(`^(\S*config|(\S+-)?file|filename) |^\S+ (PEM |local )?(file|folder) |^\S+ Path to |to a file`)

// Shells offer files only for flags whose values are files.
func TestCompletion_EachFlag(t *testing.T) {
	t.Setenv("KUBECONFIG", kubeconfigFor(t, "http://127.0.0.1:1"))
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		c.SetContext(t.Context())
		c.InheritedFlags() // merges them
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() == "bool" {
				return
			}
			complete, ok := c.GetFlagCompletionFunc(f.Name)
			if !ok {
				t.Errorf("%s --%s has no completion", c.CommandPath(), f.Name)
				return
			}
			_, directive := complete(c, nil, "")
			files := directive == cobra.ShellCompDirectiveDefault || directive == cobra.ShellCompDirectiveFilterDirs
			if want := namesFile.MatchString(f.Name + " " + f.Usage); files != want {
				t.Errorf("%s --%s offers files: %v, want %v by its usage: %s", c.CommandPath(), f.Name, files, want, f.Usage)
			}
		})
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	check(newCommand())
}

// The help of a command leaves out the flags of the cluster, which options lists.
func TestCommand_Options(t *testing.T) {
	help, err := execute(t.Context(), "top", "nodes", "--help")
	check.OK(t, err)
	if strings.Contains(help, "--kubeconfig") || strings.Contains(help, "--source-address") || !strings.Contains(help, "--sort") ||
		!strings.Contains(help, "kubectl plimsoll options") {
		t.Errorf("the help is\n%s", help)
	}
	options, err := execute(t.Context(), "options")
	check.OK(t, err)
	for _, flag := range []string{"--kubeconfig", "--source-address", "--scheduler", "-v, --v"} {
		if !strings.Contains(options, flag) {
			t.Errorf("no %s in\n%s", flag, options)
		}
	}
}

func TestVersion(t *testing.T) {
	out, err := execute(t.Context(), "version", "--client", "-o", "jsonpath={.kind} {.client.kubernetes}")
	if want := "Version " + componentversion.Get().GitVersion; err != nil || out != want {
		t.Errorf("%q, error %v; want %q", out, err, want)
	}
}

func TestCompletion(t *testing.T) {
	var agent string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		agent = r.Header.Get("User-Agent")
		version, kind, name := "v1", "", ""
		switch r.URL.Path {
		case "/api/v1/namespaces":
			kind, name = "Namespace", "shop"
		case "/api/v1/nodes":
			kind, name = "Node", "worker-1"
		case "/api/v1/namespaces/shop/pods":
			kind, name = "Pod", "web-1"
		case "/apis/apps/v1/namespaces/shop/deployments":
			version, kind, name = "apps/v1", "Deployment", "web"
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"kind":"%sList","apiVersion":%q,"items":[{"metadata":{"name":%q}}]}`, kind, version, name)
	}))
	t.Cleanup(server.Close)
	kubeconfig := "--kubeconfig=" + kubeconfigFor(t, server.URL)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"explain", "--output", ""}, "table\nwide\njson\nyaml\n"},
		{[]string{"explain", kubeconfig, "--context", ""}, "other\ntest\n"},
		{[]string{"explain", kubeconfig, "-n", ""}, "shop\n"},
		{[]string{"explain", kubeconfig, "--node", ""}, "worker-1\n"},
		{[]string{"explain", kubeconfig, ""}, "web-1\npod\ndeployment\n"},
		{[]string{"explain", kubeconfig, "deploy/"}, "deploy/web\n"},
		{[]string{"explain", kubeconfig, "deployment", ""}, "web\n"},
		{[]string{"explain", kubeconfig, "ns/"}, "ns/shop\n"},
		{[]string{"expl"}, "explain\t"},
		{[]string{"top", "nodes", kubeconfig, ""}, "worker-1\n"},
		{[]string{"top", "pods", kubeconfig, ""}, "worker-1\n"},
		{[]string{"top", "pods", kubeconfig, "-n", ""}, "shop\n"},
		{[]string{"top", "nodes", "-o", ""}, "table\nwide\njson\nyaml\n"},
		{[]string{"top", "--sort", ""}, "line\nname\ncpu\n"},
		{[]string{"replay", "--scenario", ""}, "base\nhigh\nlow\nnew\nall\n"},
		{[]string{"doctor", "--source-address", ""}, ":4\n"}, // no files
		{[]string{"top", "nodes", "-v", ""}, ":4\n"},
	} {
		out, err := execute(t.Context(), append([]string{"__complete"}, tt.args...)...)
		if err != nil || !strings.HasPrefix(out, tt.want) {
			t.Errorf("%q: completed %q, error %v, want %q", tt.args, out, err, tt.want)
		}
	}
	if !strings.HasPrefix(agent, "kubectl-plimsoll/") {
		t.Errorf("User-Agent %q", agent)
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

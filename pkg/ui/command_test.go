package ui

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster/kubectl"
	checking "github.com/plimsoll-scheduler/plimsoll/test/check"
)

// fakeMoves has the flag of a rebalancer.
func fakeMoves() Moves {
	return Moves{
		AddFile: func(flags *pflag.FlagSet, file *string) {
			flags.StringVar(file, "rebalancer-config", "", "")
		},
		Check: func(string) error { return nil },
		Plan: func(
			context.Context, *cluster.Connection, cluster.ConfigurationOptions, cluster.SourceOptions, string,
		) ([]byte, cluster.Command, error) {
			return plannedMoves(""), cluster.Plugin("rebalance"), nil
		},
	}
}

// The page's commands reach the same cluster from any terminal, whatever chose it.
func TestUI_Commands(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	t.Chdir(t.TempDir())
	dir, err := os.Getwd()
	checking.OK(t, err)
	checking.OK(t, os.WriteFile("clusters", []byte(checking.Kubeconfig(server.URL)), 0o600))
	home := clientcmd.RecommendedHomeFile
	clientcmd.RecommendedHomeFile = filepath.Join(dir, "clusters")
	t.Cleanup(func() { clientcmd.RecommendedHomeFile = home })
	for _, tt := range []struct{ env, flags, want string }{
		{"clusters", "", "--kubeconfig DIR/clusters --context test"},
		{":clusters", "--context other", "--kubeconfig DIR/clusters --context other"},
		{"clusters:DIR/more", "", "--context test"},
		{"", "", "--kubeconfig DIR/clusters --context test"},
		{"more", "--kubeconfig clusters", "--kubeconfig DIR/clusters --context test"},
		{"clusters", "--config a.yaml --source-token-file b --source-application-key-file c --source-ca-file d", "--kubeconfig DIR/clusters --context test " +
			"--config DIR/a.yaml --source-token-file DIR/b --source-application-key-file DIR/c --source-ca-file DIR/d"},
	} {
		t.Setenv("KUBECONFIG", strings.ReplaceAll(tt.env, "DIR", dir))
		o := &uiOptions{cluster: kubectl.NewFlags()}
		command := &cobra.Command{}
		o.cluster.AddTo(command.Flags())
		checking.OK(t, command.ParseFlags(strings.Fields(tt.flags)))
		command.SetContext(t.Context())
		var options Options
		if err := o.openCluster(command, &options); err == nil {
			t.Error("there is a cluster")
		}
		got, want := cluster.Plugin("top", options.Flags...).For(options.Chosen), "kubectl plimsoll top "+strings.ReplaceAll(tt.want, "DIR", dir)
		if got != want {
			t.Errorf("KUBECONFIG=%s ui %s:\ngot  %s\nwant %s", tt.env, tt.flags, got, want)
		}
	}
}

// A saved snapshot becomes a page without a cluster.
func TestUI_FromFile(t *testing.T) {
	saved, page, again := filepath.Join(t.TempDir(), "saved"), filepath.Join(t.TempDir(), "page"), filepath.Join(t.TempDir(), "again")
	const content = `{"apiVersion":"inspect.plimsoll.io/v1","kind":"ClusterLoads","profile":"plimsoll","plugin":"LoadThreshold",` +
		`"time":"2026-01-02T03:04:05Z","context":"</script>"}`
	checking.OK(t, os.WriteFile(saved, []byte(content), 0o600))
	_, err := checking.Execute(t.Context(), Command(fakeMoves()), "--from-file", saved, "--html", page, "--save", again)
	checking.OK(t, err)
	html, err := os.ReadFile(page)
	checking.OK(t, err)
	if !strings.Contains(string(html), `"context":"\u003c/script\u003e"`) {
		t.Errorf("the page has no escaped context:\n%s", html)
	}
	copied, err := os.ReadFile(again)
	checking.OK(t, err)
	if strings.ReplaceAll(strings.TrimSpace(string(copied)), `\u003c/script\u003e`, "</script>") != content {
		t.Errorf("saved again: %s, want %s", copied, content)
	}
	for _, file := range []string{page, again} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, error %v, want a file that others cannot read", file, info.Mode(), err)
		}
	}
	_, err = checking.Execute(t.Context(), Command(fakeMoves()), "--from-file", page)
	if _, usage := errors.AsType[*cluster.OptionError](err); !usage || !strings.Contains(err.Error(), "--from-file: ") {
		t.Errorf("error %v", err)
	}
}

// Hashes replace names in files alone.
func TestUI_HashNames(t *testing.T) {
	saved, page := filepath.Join(t.TempDir(), "saved"), filepath.Join(t.TempDir(), "page")
	const content = `{"apiVersion":"inspect.plimsoll.io/v1","kind":"ClusterLoads","profile":"secret","plugin":"LoadThreshold",` +
		`"time":"2026-01-02T03:04:05Z","context":"secret","nodes":{"secret":{"name":"secret","pods":7}}}`
	checking.OK(t, os.WriteFile(saved, []byte(content), 0o600))
	_, err := checking.Execute(t.Context(), Command(fakeMoves()), "--from-file", saved, "--html", page, "--hash-names")
	checking.OK(t, err)
	html, err := os.ReadFile(page)
	checking.OK(t, err)
	if strings.Contains(string(html), "secret") || !strings.Contains(string(html), `"pods":7`) {
		t.Errorf("the page has a name, or no node:\n%s", html)
	}
	_, err = checking.Execute(t.Context(), Command(fakeMoves()), "--from-file", saved, "--hash-names")
	if _, usage := errors.AsType[*cluster.OptionError](err); !usage || !strings.Contains(err.Error(), "--hash-names: only with --save or --html") {
		t.Errorf("error %v", err)
	}
}

// TestUI_FlagsWithoutEffect expects no flag to be ignored.
func TestUI_FlagsWithoutEffect(t *testing.T) {
	reasons := map[string]string{
		"save": "which serves no page", "html": "which serves no page", "from-file": "which reads no cluster",
	}
	const written, saved = "save html", "from-file"
	for flag, others := range map[string]string{
		"--port=8080":                     written,
		"--no-open":                       written,
		"--rebalancer-config=free.yaml":   written + " " + saved,
		"--scheduler-name=plimsoll":       saved,
		"--plugin=LoadThreshold":          saved,
		"--config=a.yaml":                 saved,
		"--scheduler=a/b":                 saved,
		"--source-address=http://a":       saved,
		"--source-token-file=a":           saved,
		"--source-application-key-file=a": saved,
		"--source-ca-file=a":              saved,
		"--kubeconfig=a":                  saved,
		"--context=a":                     saved,
		"--namespace=a":                   saved,
	} {
		name, _, _ := strings.Cut(flag, "=")
		for _, other := range strings.Fields(others) {
			_, err := checking.Execute(t.Context(), Command(fakeMoves()), "--"+other, filepath.Join(t.TempDir(), "file"), flag)
			want := name + ": no effect with --" + other + ", " + reasons[other] + "; leave out one of them"
			if _, usage := errors.AsType[*cluster.OptionError](err); !usage || err.Error() != want {
				t.Errorf("--%s %s: error %v, want %s", other, flag, err, want)
			}
		}
	}
}

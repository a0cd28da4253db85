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

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/kubectl"
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

// The page's commands have the flags that chose the cluster, and the context that is current now.
func TestUI_Commands(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	t.Chdir(t.TempDir())
	checking.OK(t, os.WriteFile("clusters", []byte(checking.Kubeconfig(server.URL)), 0o600))
	for _, tt := range []struct{ env, flags, want string }{
		{"clusters", "", "--context test"},
		{"clusters", "--context other", "--context other"},
		{"more", "--kubeconfig clusters", "--kubeconfig clusters --context test"},
		{"clusters", "--config a.yaml --source-token-file b --source-application-key-file c --source-ca-file d",
			"--context test --config a.yaml --source-token-file b --source-application-key-file c --source-ca-file d"},
	} {
		t.Setenv("KUBECONFIG", tt.env)
		o := &uiOptions{cluster: kubectl.NewFlags()}
		command := &cobra.Command{}
		o.cluster.AddTo(command.Flags())
		checking.OK(t, command.ParseFlags(strings.Fields(tt.flags)))
		command.SetContext(t.Context())
		var options Options
		if err := o.openCluster(command, &options); err == nil {
			t.Error("there is a cluster")
		}
		got, want := cluster.Plugin("top", options.Flags...).For(options.Chosen), "kubectl plimsoll top "+tt.want
		if got != want {
			t.Errorf("KUBECONFIG=%s ui %s:\ngot  %s\nwant %s", tt.env, tt.flags, got, want)
		}
	}
}

// TestUI_FlagsWithoutEffect expects no flag to be ignored.
func TestUI_FlagsWithoutEffect(t *testing.T) {
	for _, flag := range []string{"--port=8080", "--no-open", "--rebalancer-config=free.yaml"} {
		_, err := checking.Execute(t.Context(), Command(fakeMoves()), "--html", filepath.Join(t.TempDir(), "file"), flag)
		name, _, _ := strings.Cut(flag, "=")
		want := name + ": no effect with --html, which serves no page; leave out one of them"
		if _, usage := errors.AsType[*cluster.OptionError](err); !usage || err.Error() != want {
			t.Errorf("--html %s: error %v, want %s", flag, err, want)
		}
	}
}

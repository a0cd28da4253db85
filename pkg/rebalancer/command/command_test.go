package command

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func TestRebalance_Flags(t *testing.T) {
	for args, want := range map[string]string{
		"--yes":           "--yes: has no effect without --evict; add --evict to make the moves",
		"--evict -o json": "--output: not supported with --evict; run the plan with -o json first",
	} {
		_, err := check.Execute(t.Context(), Command(), append([]string{"--server", "http://localhost:1"}, strings.Fields(args)...)...)
		if _, ok := errors.AsType[*cluster.OptionError](err); !ok || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want the usage error %s", args, err, want)
		}
	}
}

// TestRebalance_Configuration has a configuration that the command refuses before it asks the cluster.
func TestRebalance_Configuration(t *testing.T) {
	invalid := filepath.Join(t.TempDir(), "rebalancer.yaml")
	check.OK(t, os.WriteFile(invalid, []byte("apiVersion: rebalancer.plimsoll.io/v1\nkind: RebalancerConfiguration\nlinePercent: 120\n"), 0o600))
	for file, want := range map[string]string{
		invalid:  "--rebalancer-config: " + invalid + ": linePercent: Invalid value: 120: must be in [1, 100]",
		"nofile": "--rebalancer-config: stat nofile: no such file or directory",
	} {
		for _, command := range []string{"", "--evict --yes"} {
			args := append(strings.Fields(command), "--server", "http://localhost:1", "--rebalancer-config", file)
			_, err := check.Execute(t.Context(), Command(), args...)
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: %v, want %s", command, err, want)
			}
		}
	}
}

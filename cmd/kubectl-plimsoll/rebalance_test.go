package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRebalance_Flags(t *testing.T) {
	for args, want := range map[string]string{
		"--yes":           "--yes: has no effect without --evict; add --evict to make the moves",
		"--evict -o json": "--output: not supported with --evict; run the plan with -o json first",
	} {
		_, err := execute(t.Context(), append([]string{"rebalance", "--server", "http://localhost:1"}, strings.Fields(args)...)...)
		if _, ok := errors.AsType[usageError](err); !ok || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want the usage error %s", args, err, want)
		}
	}
}

// TestRebalance_Configuration has a configuration that every command with the flag refuses before it asks the cluster.
func TestRebalance_Configuration(t *testing.T) {
	invalid := filepath.Join(t.TempDir(), "rebalancer.yaml")
	must(t, os.WriteFile(invalid, []byte("apiVersion: rebalancer.plimsoll.io/v1\nkind: RebalancerConfiguration\nlinePercent: 120\n"), 0o600))
	for file, want := range map[string]string{
		invalid:  "--rebalancer-config: " + invalid + ": linePercent: Invalid value: 120: must be in [1, 100]",
		"nofile": "--rebalancer-config: stat nofile: no such file or directory",
	} {
		for _, command := range []string{"rebalance", "rebalance --evict --yes", "ui --no-open"} {
			args := append(strings.Fields(command), "--server", "http://localhost:1", "--rebalancer-config", file)
			_, err := execute(t.Context(), args...)
			if err == nil || exitCode(err) != 2 || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: %v, want %s", command, err, want)
			}
		}
	}
}

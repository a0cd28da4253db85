package main

import (
	"strings"
	"testing"
)

func TestRebalance_Flags(t *testing.T) {
	for args, want := range map[string]string{
		"--yes":                      "--yes: has no effect without --evict; add --evict to make the moves",
		"--evict -o json":            "--output: not supported with --evict; run the plan with -o json first",
		"--rebalancer-config nofile": "--rebalancer-config: stat nofile: no such file or directory",
	} {
		_, err := execute(t.Context(), append([]string{"rebalance", "--server", "http://localhost:1"}, strings.Fields(args)...)...)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
}

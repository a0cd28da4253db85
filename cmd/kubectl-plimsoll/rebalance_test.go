package main

import (
	"context"
	"errors"
	"io"
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

// TestReadLine has an answer, and Ctrl-C in place of one.
func TestReadLine(t *testing.T) {
	if line, err := readLine(t.Context(), strings.NewReader("y\nn\n")); line != "y\n" || err != nil {
		t.Errorf("%q with error %v, want y", line, err)
	}
	if _, err := readLine(t.Context(), strings.NewReader("")); !errors.Is(err, io.EOF) {
		t.Errorf("error %v, want %v", err, io.EOF)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	in, out := io.Pipe()
	if _, err := readLine(ctx, in); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	if err := out.Close(); err != nil { // the read ends
		t.Error(err)
	}
}

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// TestPlayground runs all scenarios, each of which checks its own result.
func TestPlayground(t *testing.T) {
	program := filepath.Join(t.TempDir(), "playground")
	output, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../playground").CombinedOutput()
	if err != nil {
		t.Fatalf("building the playground: %v\n%s", err, output)
	}
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, program)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it stops its cluster
	cmd.WaitDelay = time.Minute
	cmd.Env = append(os.Environ(), "SCENARIOS=all", "KEEP=")
	if output, err = cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	check.Contains(t, string(output), "THE WORKED EXAMPLE", "MOVING", "All 4 scenarios ended as they must.")
}

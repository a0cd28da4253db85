// Package build builds the programs that tests need into the bin folder of this repository.
package build

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/component-base/version"
)

// Programs builds the named programs of hack/parts.sh that are missing or out of date, for the minor version of Kubernetes that the
// caller was compiled with. It reports to out, one line per program, and returns the folder of the programs. When ctx ends, the
// compilers end too.
func Programs(ctx context.Context, out io.Writer, names ...string) (binDir string, err error) {
	goMod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("looking for the root of the repository: %w", err)
	}
	return programs(ctx, out, filepath.Dir(string(goMod)), names...)
}

func programs(ctx context.Context, out io.Writer, root string, names ...string) (binDir string, err error) {
	cmd := exec.CommandContext(ctx, filepath.Join(root, "hack", "parts.sh"), names...)
	cmd.Env = append(os.Environ(), "KUBERNETES="+version.DefaultKubeBinaryVersion)
	cmd.Stderr = out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	dir, err := cmd.Output()
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("building %s: %w", strings.Join(names, ", "), err)
	}
	return strings.TrimSpace(string(dir)), nil
}

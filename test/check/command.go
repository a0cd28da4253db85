package check

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// Execute runs the command with the arguments, and returns what it writes.
func Execute(ctx context.Context, command *cobra.Command, args ...string) (written string, err error) {
	var out bytes.Buffer
	command.SetArgs(args)
	command.SetOut(&out)
	command.SetErr(&out)
	command.SilenceUsage, command.SilenceErrors = true, true
	err = command.ExecuteContext(ctx)
	return out.String(), err
}

// File returns a new file.
func File(tb testing.TB, name, content string) string {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), name)
	OK(tb, os.WriteFile(file, []byte(content), 0o600))
	return file
}

// Kubeconfig returns the text of a kubeconfig with the contexts test, which is the current one, and other.
func Kubeconfig(server string) string {
	return `{apiVersion: v1, kind: Config, current-context: test, clusters: [{name: c, cluster: {server: "` + server + `"}}],
users: [{name: u, user: {token: t}}],
contexts: [{name: test, context: {cluster: c, user: u, namespace: shop}}, {name: other, context: {cluster: c, user: u}}]}`
}

// Serve returns a server of the handler, which is closed when the test ends.
func Serve(tb testing.TB, handler http.Handler) *httptest.Server {
	tb.Helper()
	server := httptest.NewServer(handler)
	tb.Cleanup(server.Close)
	return server
}

// ProcessorTime returns the processor time that this process has used.
func ProcessorTime(tb testing.TB) time.Duration {
	tb.Helper()
	var r syscall.Rusage
	OK(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &r))
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

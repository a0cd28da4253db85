package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func runScheduler(t *testing.T, args ...string) (exitCode int, stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(binDir, "kube-scheduler"), args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
			t.Fatal(err)
		}
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// TestCommand_InvalidConfiguration expects exit code 1 and one line on stderr before the scheduler listens or calls anything.
func TestCommand_InvalidConfiguration(t *testing.T) {
	for _, tt := range []struct {
		name, plugin, field string
		// want are parts of the line.
		want []string
	}{
		{"an unknown field", "TargetLoadPacking", "targetUtilisation: 40", []string{"targetUtilisation", "did you mean targetUtilization?"}},
		{"a target out of range", "TargetLoadPacking", "targetUtilization: 150", []string{"targetUtilization", "150", "99"}},
		{"a negative margin", "LoadVariationRiskBalancing", "safeVarianceMargin: -1", []string{"safeVarianceMargin", "-1"}},
		{"an unknown provider", "TargetLoadPacking", "metricProvider: {type: Graphite}", []string{"metricProvider.type", "Graphite"}},
		{"an address that is not a URL", "TargetLoadPacking", "watcherAddress: load-watcher:2020", []string{"watcherAddress", "load-watcher:2020"}},
		{"a refresh interval above maxAge", "TargetLoadPacking", "maxAge: 2s\n      refreshInterval: 3s", []string{"refreshInterval", "maxAge"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// The port is in use: if the scheduler tried to listen, it would report that. The API server does not exist.
			taken := check.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
			defer func() { _ = taken.Close() }()
			dir := t.TempDir()
			config, kubeconfig := filepath.Join(dir, "scheduler.yaml"), filepath.Join(dir, "kubeconfig")
			write(t, kubeconfig, `{"clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
"contexts": [{"name": "c", "context": {"cluster": "c"}}], "current-context": "c"}`)
			write(t, config, fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %s}
leaderElection: {leaderElect: false}
profiles:
- schedulerName: plimsoll
  plugins:
    score:
      enabled: [{name: %[2]s}]
  pluginConfig:
  - name: %[2]s
    args:
      %[3]s
`, kubeconfig, tt.plugin, tt.field))
			code, stdout, stderr := runScheduler(t, "--config="+config, "--bind-address=127.0.0.1",
				fmt.Sprintf("--secure-port=%d", taken.Addr().(*net.TCPAddr).Port))
			check.Equal(t, "the exit code", 1, code)
			check.Equal(t, "stdout, want nothing", "", stdout)
			if strings.Count(stderr, "\n") != 1 || !strings.HasSuffix(stderr, "\n") {
				t.Errorf("stderr is not one line:\n%s", stderr)
			}
			check.Contains(t, stderr, tt.want...)
		})
	}
}

// TestCommand_WarningInLogFormat expects warnings about the configuration in the configured format of the log. klog's text format
// marks them with W, JSON has a key severity.
func TestCommand_WarningInLogFormat(t *testing.T) {
	for _, tt := range []struct {
		name, profile string
		// message is a part of the warning's message, and details are fields of its entry.
		message string
		details map[string]string
	}{
		{
			"a disabled plugin that does not exist", "plugins: {score: {disabled: [{name: NodeResourceFit}]}}",
			"does not exist", map[string]string{"field": "profiles[0].plugins.score.disabled[0]", "name": "NodeResourceFit"},
		},
		{
			"a query that Prometheus cannot parse", `plugins: {score: {enabled: [{name: NodeMetrics}]}}
  pluginConfig:
  - name: NodeMetrics
    args:
      metricProvider: {type: Prometheus, address: "http://127.0.0.1:1"}
      metrics: [{name: broken, query: "sum(", prefer: Lower}]`,
			// The expression ends too early, after four characters.
			"cannot parse the query", map[string]string{"field": "profiles[0].pluginConfig[0].args.metrics[0].query", "query": "sum(", "queryLine": "1", "queryColumn": "5"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			config, kubeconfig, written := filepath.Join(dir, "scheduler.yaml"), filepath.Join(dir,
				"kubeconfig"), filepath.Join(dir, "written.yaml")
			write(t, kubeconfig, `{"clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
"contexts": [{"name": "c", "context": {"cluster": "c"}}], "current-context": "c"}`)
			write(t, config, `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: `+kubeconfig+`}
profiles:
- `+tt.profile+`
`)
			// With --write-config-to the scheduler is built, writes its configuration and exits.
			flags := []string{"--config=" + config, "--write-config-to=" + written, "--secure-port=0"}
			code, _, stderr := runScheduler(t, flags...)
			if warning := regexp.MustCompile(`(?m)^W.*` + tt.message).FindString(stderr); code != 0 || warning == "" {
				t.Errorf("the exit code is %d, and no warning says %q: %s", code, tt.message, stderr)
			}
			code, _, stderr = runScheduler(t, append(flags, "--logging-format=json")...)
			check.Require(t, fmt.Sprintf("the exit code: %s", stderr), 0, code)
			tt.details["severity"] = "warning"
			for line := range strings.Lines(stderr) {
				var entry map[string]any
				if json.Unmarshal([]byte(line), &entry) != nil || !strings.Contains(fmt.Sprint(entry["msg"]), tt.message) {
					continue
				}
				for key, want := range tt.details {
					check.Equal(t, key, want, fmt.Sprint(entry[key]))
				}
				return
			}
			t.Errorf("no warning in JSON that %q:\n%s", tt.message, stderr)
		})
	}
}

// TestCommand_Version expects the version of this repository and that of the Kubernetes under test.
func TestCommand_Version(t *testing.T) {
	code, stdout, stderr := runScheduler(t, "--version")
	if code != 0 || stderr != "" {
		t.Errorf("the exit code is %d and stderr %q, want 0 and nothing", code, stderr)
	}
	v := kubernetes(t)
	if !regexp.MustCompile(`^Plimsoll \S+\nKubernetes v` + regexp.QuoteMeta(v.String()) + `\n$`).MatchString(stdout) {
		t.Errorf("stdout is %q, want Kubernetes v%s", stdout, v)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	check.OK(t, os.WriteFile(name, []byte(text), 0o600))
}

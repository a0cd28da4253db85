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
)

// runScheduler runs the built scheduler to its end.
func runScheduler(t *testing.T, args ...string) (exitCode int, stdout, stderr string) {
	t.Helper()
	dir, err := binDir(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "kube-scheduler"), args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
			t.Fatal(err)
		}
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

func TestAWrongConfigurationIsRefusedWithOneLineBeforeAnythingListens(t *testing.T) {
	for _, tt := range []struct {
		name, plugin, field string
		// want is what the line says.
		want []string
	}{
		{"an unknown field", "TargetLoadPacking", "targetUtilisation: 40", []string{"targetUtilisation"}},
		{"a target out of range", "TargetLoadPacking", "targetUtilization: 150", []string{"targetUtilization", "150", "99"}},
		{"a negative margin", "LoadVariationRiskBalancing", "safeVarianceMargin: -1", []string{"safeVarianceMargin", "-1"}},
		{"an unknown provider", "TargetLoadPacking", "metricProvider: {type: Graphite}", []string{"metricProvider.type", "Graphite"}},
		{"an address that is no URL", "TargetLoadPacking", "watcherAddress: load-watcher:2020", []string{"watcherAddress", "load-watcher:2020"}},
		{
			"a query that does not parse", "NodeMetrics",
			`metricProvider: {type: Prometheus, address: "http://127.0.0.1:1"}` + "\n      " + `metrics: [{name: broken, query: "sum(", prefer: Lower}]`,
			// What is missing is missing behind the four characters.
			[]string{"metrics[0].query", "sum(", "line:column 1:5: "},
		},
		{"a refresh that comes too late", "TargetLoadPacking", "maxAge: 2s\n      refreshInterval: 3s", []string{"refreshInterval", "maxAge"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// The port is taken: if the scheduler tried to listen, it would say so. And nobody may call the API server.
			taken, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
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
			if code != 1 {
				t.Errorf("it exits with %d, want 1", code)
			}
			if stdout != "" {
				t.Errorf("it writes to stdout: %s", stdout)
			}
			if strings.Count(stderr, "\n") != 1 || !strings.HasSuffix(stderr, "\n") {
				t.Errorf("it does not write one line to stderr but:\n%s", stderr)
			}
			for _, part := range tt.want {
				if !strings.Contains(stderr, part) {
					t.Errorf("%q does not name %q", stderr, part)
				}
			}
		})
	}
}

func TestAWarningAboutTheConfigurationIsLoggedInTheFormatOfTheLog(t *testing.T) {
	dir := t.TempDir()
	config, kubeconfig, written := filepath.Join(dir, "scheduler.yaml"), filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "written.yaml")
	write(t, kubeconfig, `{"clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
"contexts": [{"name": "c", "context": {"cluster": "c"}}], "current-context": "c"}`)
	write(t, config, `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: `+kubeconfig+`}
profiles:
- plugins: {score: {disabled: [{name: NodeResourceFit}]}}
`)
	// It builds the scheduler, writes the configuration, and ends.
	code, _, stderr := runScheduler(t, "--config="+config, "--write-config-to="+written, "--secure-port=0", "--logging-format=json")
	if code != 0 {
		t.Fatalf("it exits with %d: %s", code, stderr)
	}
	for line := range strings.Lines(stderr) {
		var entry struct{ Msg, Field, Name string }
		if json.Unmarshal([]byte(line), &entry) == nil && strings.Contains(entry.Msg, "does not exist") {
			if entry.Field != "profiles[0].plugins.score.disabled[0]" || entry.Name != "NodeResourceFit" {
				t.Errorf("it warns of %s", line)
			}
			return
		}
	}
	t.Errorf("it does not warn, but says: %s", stderr)
}

func TestTheVersionIsOursAndThatOfKubernetes(t *testing.T) {
	code, stdout, stderr := runScheduler(t, "--version")
	if code != 0 || stderr != "" {
		t.Errorf("it exits with %d and writes to stderr: %q", code, stderr)
	}
	if !regexp.MustCompile(`^Plimsoll \S+\nKubernetes v1\.\d+\.\d+\n$`).MatchString(stdout) {
		t.Errorf("it says %q", stdout)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

package inspect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"text/template"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster/build"
)

// configuration is that of the shared cluster's scheduler. It has the stock profile, one that scores and filters by measured load,
// and one with PredictedPeak. All nodes are looked at, so that only ties are decided by chance.
const configuration = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: {{ .Kubeconfig }}
leaderElection:
  leaderElect: false
percentageOfNodesToScore: 100
profiles:
- schedulerName: default-scheduler
- schedulerName: plimsoll
  plugins:
    multiPoint:
      enabled:
      - {name: LoadThreshold}
      - {name: TargetLoadPacking, weight: 2}
      - {name: LoadVariationRiskBalancing, weight: 3}
      - {name: NodeMetrics}
    score:
      disabled:
      - {name: NodeResourcesFit}
      - {name: NodeResourcesBalancedAllocation}
  pluginConfig:
  - name: LoadThreshold
    args:
      metricProvider: {type: Prometheus, address: '{{ .Prometheus }}'}
      refreshInterval: 1s
      window: 1m
      thresholds: {cpu: 80}
  - name: TargetLoadPacking
    args: {metricProvider: {type: Prometheus, address: '{{ .Prometheus }}'}, refreshInterval: 1s, window: 1m}
  - name: LoadVariationRiskBalancing
    args: {metricProvider: {type: Prometheus, address: '{{ .Prometheus }}'}, refreshInterval: 1s, window: 1m}
  - name: NodeMetrics
    args:
      metricProvider: {type: Prometheus, address: '{{ .Prometheus }}'}
      refreshInterval: 1s
      window: 1m
      metrics:
      - {name: latency, query: node_http_latency_seconds, prefer: Lower, reject: "> 5"}
- schedulerName: peaks
  plugins:
    multiPoint:
      enabled:
      - {name: PredictedPeak, weight: 5}
    score:
      disabled:
      - {name: NodeResourcesFit}
      - {name: NodeResourcesBalancedAllocation}
  pluginConfig:
  - name: PredictedPeak
    args: {metricProvider: {type: Prometheus, address: '{{ .Prometheus }}'}, refreshInterval: 1s, window: 1m}
`

// environment is a cluster, and what kubectl-plimsoll is run with.
type environment struct {
	*cluster.Cluster
	// binDir is the folder of the programs, configuration the file of the scheduler's configuration.
	binDir, configuration string
	// report is the last one of doctor.
	report *doctor.Report
}

// scrapeInterval is that of the shared cluster; 0 stands for a second. A build tag may set another one.
var scrapeInterval time.Duration

// shared is the cluster that TestMain starts. Tests that use it run one after the other.
var shared *environment

// TestMain builds the programs that are missing, and starts the shared cluster.
func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code, err := run(ctx, m)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(ctx context.Context, m *testing.M) (code int, err error) {
	binDir, err := build.Programs(ctx, os.Stderr, append(cluster.Options{MetricsServer: true, Scheduler: "any"}.Parts(),
		"kubectl", "kubectl-plimsoll", "load-watcher", "rebalancer", "stock-kube-scheduler")...)
	if err != nil {
		return 0, err
	}
	options := cluster.Options{BinDir: binDir, Scheduler: configuration, AuditLog: true, ScrapeInterval: scrapeInterval}
	c, err := cluster.Start(ctx, options)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Failed(), c.Stop()) }()
	dir, err := os.MkdirTemp("", "plimsoll-inspect-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	shared = &environment{Cluster: c, binDir: binDir, configuration: filepath.Join(dir, "scheduler.yaml")}
	text, err := render(configuration, c.Endpoints)
	if err != nil {
		return 0, err
	}
	if err := os.WriteFile(shared.configuration, text, 0o600); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// render fills in the addresses of the cluster, as cluster.Options.Scheduler is filled in.
func render(text string, endpoints cluster.Endpoints) ([]byte, error) {
	t, err := template.New("configuration").Option("missingkey=error").Parse(text)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, endpoints)
	return b.Bytes(), err
}

// writeConfiguration writes a configuration, a template like that of the shared cluster, to a file, and returns its name.
func (e *environment) writeConfiguration(t *testing.T, text string) string {
	t.Helper()
	filled := check.Value(render(text, e.Endpoints))(t)
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	check.OK(t, os.WriteFile(file, filled, 0o600))
	return file
}

// clear removes all nodes and pods, now and at the end of the test.
func (e *environment) clear(t *testing.T) {
	t.Helper()
	check.OK(t, e.Clear(t.Context()))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if t.Failed() {
			t.Log(e.Seen(ctx))
			if e.report != nil {
				t.Logf("doctor found last:\n%s", shown(e.report))
			}
		}
		check.OK(t, e.Clear(ctx))
	})
}

// lateScrapes says which node lacks samples since a moment, or got one late; empty if none does. A rate over them may be off.
func lateScrapes(t *testing.T, since time.Time) string {
	t.Helper()
	const late = 0.3
	seconds := int(time.Since(since).Seconds())
	samples, err := shared.Query(t.Context(), time.Now(), fmt.Sprintf("count_over_time(node_cpu_usage_seconds_total[%ds])", seconds))
	check.OK(t, err)
	durations, err := shared.Query(t.Context(), time.Now(), fmt.Sprintf(`max_over_time(scrape_duration_seconds{node!=""}[%ds])`, seconds))
	check.OK(t, err)
	for _, node := range slices.Sorted(maps.Keys(samples)) {
		if n, took := int(samples[node]), durations[node]; n < seconds-1 || took > late {
			return fmt.Sprintf("%s has %d samples in %d s, and a scrape took %.1f s", node, n, seconds, took)
		}
	}
	return ""
}

// waitSchedulerMetrics waits until the scheduler's metrics show what is expected.
func waitSchedulerMetrics(t *testing.T, shown func(cluster.Metrics) bool) {
	t.Helper()
	waitUntil(t, func() bool {
		m, err := shared.Scheduler.Metrics(t.Context())
		return err == nil && shown(m)
	})
}

// result is that of one run of kubectl-plimsoll.
type result struct {
	stdout, stderr string
	exitCode       int
}

// plimsoll runs kubectl-plimsoll as the administrator. Unless the arguments name a configuration, it is that of the scheduler.
func (e *environment) plimsoll(t *testing.T, args ...string) result {
	t.Helper()
	return e.plimsollReading(t, "", args...)
}

// plimsollReading is plimsoll with a text at standard input.
func (e *environment) plimsollReading(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	all := append([]string{}, args...)
	for _, flag := range []struct{ name, value string }{{"--kubeconfig", e.AdminKubeconfig}, {"--config", e.configuration}} {
		if !given(args, flag.name) {
			all = append(all, flag.name+"="+flag.value)
		}
	}
	return e.run(t, stdin, all...)
}

// run runs kubectl-plimsoll with these arguments and no others.
func (e *environment) run(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(e.binDir, "kubectl-plimsoll"), args...)
	// Neither the user's kubeconfig nor a cluster that the tests themselves run in.
	cmd.Env = append(os.Environ(), "KUBECONFIG=", "KUBERNETES_SERVICE_HOST=", "HOME="+t.TempDir())
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
			t.Fatal(err)
		}
	}
	return result{stdout: stdout.String(), stderr: stderr.String(), exitCode: cmd.ProcessState.ExitCode()}
}

// given reports whether the arguments set the flag, or for --config, say otherwise where the configuration is.
func given(args []string, flag string) bool {
	for _, arg := range args {
		name, _, _ := strings.Cut(arg, "=")
		if name == flag || flag == "--config" && name == "--scheduler" {
			return true
		}
	}
	return false
}

// wants ends the test if the exit code is another.
func (r result) wants(t *testing.T, exitCode int) result {
	t.Helper()
	if r.exitCode != exitCode {
		t.Fatalf("the exit code is %d, want %d\nstdout:\n%s\nstderr:\n%s", r.exitCode, exitCode, r.stdout, r.stderr)
	}
	return r
}

// must ends the test if err is not nil.
func must(t *testing.T, err error) {
	t.Helper()
	check.OK(t, err)
}

// TestCommand_Version expects that the program runs.
func TestCommand_Version(t *testing.T) {
	r := shared.run(t, "", "--version").wants(t, 0)
	if !strings.HasPrefix(r.stdout, "Plimsoll ") {
		t.Errorf("stdout is %q", r.stdout)
	}
}

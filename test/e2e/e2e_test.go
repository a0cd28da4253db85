package e2e

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster/build"
)

const (
	profile         = "plimsoll"
	refreshInterval = time.Second
	// settle is how long a load has to have been measured before the scheduler has surely read it.
	settle    = 3 * refreshInterval
	tolerance = 0.005
)

// byLoad disables what scores by requests.
const byLoad = `
      disabled:
      - name: NodeResourcesFit
      - name: NodeResourcesBalancedAllocation`

// configuration returns a scheduler configuration, to be filled in by the cluster, with one profile beside the default one
// in which a plugin is enabled at Score alone. disabled says what is not; args are the plugin's, one field a line.
func configuration(plugin string, weight int, disabled string, args ...string) string {
	return fmt.Sprintf(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: {{ .Kubeconfig }}
leaderElection:
  leaderElect: false
profiles:
- schedulerName: default-scheduler
- schedulerName: %s
  plugins:
    score:%s
      enabled:
      - name: %[3]s
        weight: %[4]d
  pluginConfig:
  - name: %[3]s
    args:
      refreshInterval: %[5]s
      %[6]s
`, profile, disabled, plugin, weight, refreshInterval, strings.Join(args, "\n      "))
}

const prometheus = "metricProvider: {type: Prometheus, address: '{{ .Prometheus }}'}"

// environment is a cluster of one test.
type environment struct {
	*cluster.Cluster
	t   *testing.T
	ctx context.Context
}

// binDir is where TestMain has built the programs.
func binDir(ctx context.Context) (string, error) {
	builder, err := build.New(ctx, os.Stderr)
	if err != nil {
		return "", err
	}
	return builder.BinDir(), nil
}

// start starts a cluster that ends with the test.
func start(t *testing.T, o cluster.Options) environment {
	t.Helper()
	dir, err := binDir(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o.BinDir = dir
	c, err := cluster.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			// Kept with go test -artifacts.
			if err := c.CopyLogs(t.ArtifactDir()); err != nil {
				t.Error(err)
			}
			if c.Scheduler != nil {
				log, err := c.Scheduler.Log()
				t.Logf("the scheduler's log (%v):\n%s", err, lastLines(log, 40))
			}
		}
		if err := c.Failed(); err != nil {
			t.Error(err)
		}
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return environment{c, t, t.Context()}
}

// worker is a node with 8 cores and 32 Gi.
type worker struct {
	name  string
	usage cluster.Usage
	// requests are what its pods request.
	requests corev1.ResourceList
}

// workers creates nodes with their loads.
func (e environment) workers(workers ...worker) {
	e.t.Helper()
	for _, w := range workers {
		e.must(e.CreateNodes(e.ctx, cluster.Node{Name: w.name, CPU: "8", Memory: "32Gi"}))
		e.must(e.SetLoad(e.ctx, w.name, cluster.Load{Usage: w.usage, Requests: w.requests}))
	}
}

// place creates pods that use next to nothing, and returns the node of each.
func (e environment) place(names ...string) map[string]string {
	e.t.Helper()
	labels := map[string]string{"batch": names[0]}
	for _, name := range names {
		e.must(e.CreatePods(e.ctx, tinyPod(name, labels)))
	}
	bound, err := e.WaitBound(e.ctx, labels, len(names))
	e.must(err)
	return bound
}

func tinyPod(name string, labels map[string]string) cluster.Pod {
	tiny := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")}
	return cluster.Pod{
		Name: name, Scheduler: profile, Labels: labels,
		Resources: corev1.ResourceRequirements{Requests: tiny, Limits: tiny},
	}
}

func (e environment) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(len(lines)-n, 0):], "\n")
}

func numbered(prefix string, n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("%s-%03d", prefix, i+1))
	}
	return names
}

// TestMain builds what is missing. Tests never skip for want of a program.
func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := buildParts(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func buildParts(ctx context.Context) error {
	builder, err := build.New(ctx, os.Stderr)
	if err != nil {
		return err
	}
	parts := cluster.Options{MetricsServer: true, Scheduler: "any"}.Parts()
	return builder.Build(ctx, append(parts, build.KubeSchedulerRace(), build.Kubectl(), build.Helm(), build.LoadWatcher(), build.StockKubeScheduler())...)
}

package e2e

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster/build"
)

const (
	profile         = "plimsoll"
	refreshInterval = time.Second
	// tolerance is how far a measured utilization may be off: on a busy machine Prometheus gets its samples late.
	tolerance = 0.0125
	// patience ends the wait for what never happens. It is generous because tests share machines.
	patience = 5 * time.Minute
)

const byLoad = `
      disabled:
      - name: NodeResourcesFit
      - name: NodeResourcesBalancedAllocation`

// configuration returns a scheduler configuration for cluster.Options. It has the default profile and one in which a plugin is
// enabled at Score alone. disabled is the YAML of the disabled plugins; args are fields of the plugin's args.
func configuration(plugin string, weight int, disabled string, args ...string) string {
	return fmt.Sprintf(header+`
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

// trusted keeps load from expiring between slow refreshes.
const trusted = "driftTolerance: 1000"

const prometheus = "metricProvider: {type: Prometheus, address: '{{ .Prometheus }}'}"

// environment is the cluster of one test.
type environment struct {
	*cluster.Cluster
	t   *testing.T
	ctx context.Context
}

// binDir is the folder of the programs.
var binDir string

// kubernetes returns the version of Kubernetes that the scheduler is built from.
func kubernetes(t *testing.T) *version.Version {
	t.Helper()
	info := check.Value(buildinfo.ReadFile(filepath.Join(binDir, "kube-scheduler")))(t)
	i := slices.IndexFunc(info.Deps, func(m *debug.Module) bool { return m.Path == "k8s.io/kubernetes" })
	return version.MustParseSemantic(info.Deps[i].Version)
}

// betaPolicies are the flags with which an API server before Kubernetes 1.36 serves MutatingAdmissionPolicy.
func betaPolicies(t *testing.T) []string {
	t.Helper()
	if kubernetes(t).AtLeast(version.MustParseGeneric("1.36")) {
		return nil
	}
	return []string{"--feature-gates=MutatingAdmissionPolicy=true", "--runtime-config=admissionregistration.k8s.io/v1beta1=true"}
}

func start(t *testing.T, o cluster.Options) environment {
	t.Helper()
	o.BinDir = binDir
	// The context of a test ends before its clean-up, which copies the logs.
	c := check.Value(cluster.Start(context.WithoutCancel(t.Context()), o))(t)
	t.Cleanup(func() {
		if t.Failed() {
			// go test -artifacts keeps them.
			for _, log := range check.Value(filepath.Glob(filepath.Join(filepath.Dir(c.AdminKubeconfig), "*.log")))(t) {
				check.OK(t, os.WriteFile(filepath.Join(t.ArtifactDir(), filepath.Base(log)), check.Value(os.ReadFile(log))(t), 0o644))
			}
			if c.Scheduler.Process != nil {
				log, err := c.Scheduler.Log()
				t.Logf("the scheduler's log (%v):\n%s", err, lastLines(log, 40))
				t.Log(c.Seen(context.WithoutCancel(t.Context())))
			}
		}
		check.OK(t, c.Failed())
		check.OK(t, c.Stop())
	})
	return environment{c, t, t.Context()}
}

// worker is a node with 8 cores and 32 Gi.
type worker struct {
	name  string
	usage cluster.Usage
	// requests are the requests of the pod that causes the load.
	requests corev1.ResourceList
}

// waitLoad waits until Prometheus measures the CPU utilizations over a window, within a tolerance. It then waits until the
// scheduler has read them.
func (e environment) waitLoad(window time.Duration, cpu map[string]float64, tolerance float64) {
	e.t.Helper()
	check.Value(e.WaitCPUUtilization(e.ctx,
		cluster.Expectation{Window: window, CPU: cpu, Tolerance: tolerance, For: 3 * refreshInterval}))(e.t)
	e.must(e.WaitRefresh(e.ctx))
}

func (e environment) workers(workers ...worker) {
	e.t.Helper()
	for _, w := range workers {
		e.must(e.CreateNodes(e.ctx, cluster.Node{Name: w.name, CPU: "8", Memory: "32Gi"}))
		e.must(e.SetLoad(e.ctx, w.name, cluster.Load{Usage: w.usage, Requests: w.requests}))
	}
}

func (e environment) place(names ...string) map[string]string {
	e.t.Helper()
	labels := map[string]string{"batch": names[0]}
	for _, name := range names {
		e.must(e.CreatePods(e.ctx, tinyPod(name, labels)))
	}
	return check.Value(e.WaitBound(e.ctx, labels, len(names)))(e.t)
}

func tinyPod(name string, labels map[string]string) cluster.Pod {
	tiny := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")}
	return cluster.Pod{
		Name: name, Scheduler: profile, Labels: labels, Resources: corev1.ResourceRequirements{Requests: tiny, Limits: tiny},
	}
}

// must ends the test if err is not nil.
func (e environment) must(err error) {
	e.t.Helper()
	check.OK(e.t, err)
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(len(lines)-n, 0):], "\n")
}

// numbered returns the n names prefix-001, prefix-002 and so on.
func numbered(prefix string, n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("%s-%03d", prefix, i+1))
	}
	return names
}

// TestMain builds the programs that are missing, so that no test is skipped for the lack of one.
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

func buildParts(ctx context.Context) (err error) {
	parts := append(cluster.Options{MetricsServer: true, Scheduler: "any"}.Parts(), "kubectl", "helm", "load-watcher")
	binDir, err = build.Programs(ctx, os.Stderr, parts...)
	if err == nil && filepath.Base(binDir) == "bin" { // the tests of older minors, each with a folder, need none of these
		_, err = build.Programs(ctx, os.Stderr, "kubectl-plimsoll", "kube-scheduler-race", "stock-kube-scheduler")
	}
	return err
}

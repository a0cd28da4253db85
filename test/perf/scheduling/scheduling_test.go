// Package scheduling benchmarks whole scheduling cycles by upstream's scheduler_perf, with a real etcd and API server. It compares
// the stock profile with profiles that enable load plugins. The plugins are wired as in bin/kube-scheduler and read a local server
// that speaks Prometheus' API.
package scheduling

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/component-base/metrics"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	schedulerperf "k8s.io/kubernetes/test/integration/scheduler_perf"
	"k8s.io/kubernetes/test/utils/client-go/ktesting"
	"k8s.io/utils/clock"

	_ "github.com/plimsoll-scheduler/plimsoll/apis/config/scheme" // plugin args decode like the stock plugins' own
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider/sources"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster/build"
	"github.com/plimsoll-scheduler/plimsoll/test/perf/promstub"
)

//go:embed config/*.yaml
var configFiles embed.FS

const prometheusPlaceholder = "PROMETHEUS"

// measuredNamespace is the namespace in which scheduler_perf creates the measured pods: those of the operation with the index 2.
const measuredNamespace = "namespace-2"

func TestMain(m *testing.M) {
	if err := schedulerperf.InitTests(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// BenchmarkScheduling runs one workload of performance.yaml, which -bench has to name in full. Of two in one process, the first
// would warm up the second. Beside the metrics of scheduler_perf it reports the pods bound per second and the exact durations of
// their attempts. It fails unless all plugins of the profile decided all pods by fresh load.
func BenchmarkScheduling(b *testing.B) {
	r := &run{metrics: metrics.NewKubeRegistry(), stopwatch: newStopwatch(measuredNamespace)}
	r.server = httptest.NewUnstartedServer(&r.prometheus)
	r.provider = provider.New(clock.RealClock{}, r.metrics, sources.Account{})
	registry := plugins.NewRegistry(r.provider, clock.RealClock{}, r.metrics.MustRegister)
	check.OK(b, registry.Register(stopwatchName, r.stopwatch.new))
	check.OK(b, registry.Merge(idlers()))
	provideEtcd(b)
	if _, ok := os.LookupEnv("ARTIFACTS"); !ok {
		b.Setenv("ARTIFACTS", b.TempDir()) // logs go to a file, as a scheduler's do, and not to the benchmark's output
	}
	b.Chdir(b.TempDir()) // the paths in performance.yaml are relative to here
	check.OK(b, writeConfig(r.server.Listener.Addr().String()))
	schedulerperf.RunBenchmarkPerfScheduling(b, "performance.yaml", "load", registry,
		schedulerperf.WithPreRunFn(r.prepare), schedulerperf.WithNodeUpdateFn(r.measureNodes))
}

func provideEtcd(b *testing.B) {
	b.Helper()
	builder := check.Value(build.New(b.Context(), os.Stderr))(b)
	check.OK(b, builder.Build(b.Context(), build.Etcd()))
	b.Setenv("PATH", builder.BinDir()+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func writeConfig(prometheus string) error {
	files, err := configFiles.ReadDir("config")
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := configFiles.ReadFile(path.Join("config", file.Name()))
		if err != nil {
			return err
		}
		text = bytes.ReplaceAll(text, []byte(prometheusPlaceholder), []byte(prometheus))
		if err := os.WriteFile(file.Name(), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// run is the workload of the process.
type run struct {
	metrics    metrics.KubeRegistry
	stopwatch  *stopwatch
	prometheus promstub.Server
	server     *httptest.Server
	started    bool
	// nodes are the nodes of the cluster, once they are created.
	nodes    []corev1.Node
	provider *provider.Provider
}

// prepare is called before the scheduler starts.
func (r *run) prepare(ktesting.TContext, *schedulerperf.Workload) (cleanup func(), err error) {
	if r.started {
		return nil, errors.New("one workload a process: name it in full by -bench")
	}
	r.started = true
	r.server.Start()
	return r.server.Close, nil
}

// measureNodes is called once the nodes are created: their names are not known before. It waits until the load of all of them
// is fresh.
func (r *run) measureNodes(
	tCtx ktesting.TContext,
	_ *scheduler.Scheduler,
	_ *schedulerperf.Workload,
	nodes *corev1.NodeList,
) error {
	b, ok := tCtx.TB().(*testing.B)
	if !ok {
		return errors.New("not a benchmark")
	}
	b.Cleanup(func() { r.report(b) })
	r.nodes = nodes.Items
	instances := make([]string, 0, len(r.nodes))
	for i := range r.nodes {
		instances = append(instances, r.nodes[i].Name+":9100")
	}
	r.prometheus.SetInstances(instances)
	var stale error
	fresh := func(context.Context) (bool, error) {
		stale = r.checkFresh(b)
		return stale == nil, nil
	}
	if err := wait.PollUntilContextTimeout(tCtx, 100*time.Millisecond, time.Minute, true, fresh); err != nil {
		return fmt.Errorf("waiting for load: %w: %w", err, stale)
	}
	return nil
}

// checkFresh fails unless the profile's plugins know the load and the node metrics of all nodes at this moment.
func (r *run) checkFresh(b *testing.B) error {
	if len(loadPlugins(b)) == 0 {
		return nil
	}
	states, err := r.values("plimsoll_load_nodes", "resource", "state")
	if err != nil {
		return err
	}
	for _, state := range []string{"cpu Fresh", "memory Fresh"} {
		if got := int(states[state]); got != len(r.nodes) {
			return fmt.Errorf("%d of %d nodes are known: %s", got, len(r.nodes), state)
		}
	}
	cycle := framework.NewCycleState()
	for _, source := range r.provider.Sources() {
		for _, reader := range source.Readers {
			for i := range r.nodes {
				for _, f := range reader.Figures(cycle, r.nodes[i].Name) {
					if f.State != load.Fresh {
						return fmt.Errorf("%s of %s is %s", f.Name, r.nodes[i].Name, f.State)
					}
				}
			}
		}
	}
	return nil
}

func loadPlugins(b *testing.B) []string {
	_, profile, _ := strings.Cut(b.Name(), "/profile=")
	profile, _, _ = strings.Cut(profile, "/")
	switch strings.TrimSuffix(profile, "Added") {
	case "TargetLoadPacking":
		return []string{"TargetLoadPacking"}
	case "all":
		return []string{"TargetLoadPacking", "LoadVariationRiskBalancing", "LoadThreshold", "NodeMetrics"}
	}
	return nil
}

// report reports the measurements of the stopwatch. It fails the benchmark if a plugin decided fewer than all pods, or any pod
// without fresh load. It also fails if a plugin skipped its filter, or if load expired meanwhile.
func (r *run) report(b *testing.B) {
	r.stopwatch.report(b)
	if err := r.checkFresh(b); err != nil {
		b.Error(err)
	}
	decisions, err := r.values("plimsoll_decisions_total", "plugin")
	if err != nil {
		b.Error(err)
	}
	fallbacks, err := r.values("plimsoll_fallback_total", "plugin", "reason")
	if err != nil {
		b.Error(err)
	}
	bound, skipped := r.stopwatch.counts()
	for _, plugin := range loadPlugins(b) {
		got, filters := int(decisions[plugin]), plugin == "LoadThreshold" || plugin == "NodeMetrics"
		if got < bound && !filters {
			b.Errorf("%s decided %d times, but %d pods were bound", plugin, got, bound)
		}
		if skipped[plugin] > 0 {
			b.Errorf("%s did not filter in %d of %d attempts", plugin, skipped[plugin], bound)
		}
	}
	for reason, n := range fallbacks {
		if n > 0 {
			b.Errorf("%v decisions not by fresh load: %s", n, reason)
		}
	}
	if len(loadPlugins(b)) > 0 {
		b.ReportMetric(float64(r.prometheus.Queries()), "queries")
	}
}

// values returns the values of a counter or gauge of the plugins, by the labels' values, joined by spaces.
func (r *run) values(name string, labels ...string) (map[string]float64, error) {
	families, err := r.metrics.Gather()
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	values := map[string]float64{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			var key []string
			for _, label := range labels {
				for _, pair := range m.GetLabel() {
					if pair.GetName() == label {
						key = append(key, pair.GetValue())
					}
				}
			}
			values[strings.Join(key, " ")] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return values, nil
}

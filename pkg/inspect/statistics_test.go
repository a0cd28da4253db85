// Package inspect_test holds what all tools have to agree on.
package inspect_test

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"k8s.io/utils/clock"

	_ "github.com/plimsoll-scheduler/plimsoll/apis/config/scheme" // the scheduler's scheme knows the plugins' arguments
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/whatif"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider/sources"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/engine"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/perf/promstub"
)

// statisticsOf are the arguments of plugins that choose what they read. The others have a window.
var statisticsOf = map[string][]string{
	"LoadThreshold": {
		"statistic: Mean", "statistic: MeanPlusStdDev", "statistic: P95", "statistic: Max", "statistic: PredictedPeak",
		"{statistic: P95, windows: {cpu: 1m, memory: 15m}}", "{statistic: Max, windows: {cpu: 1m, memory: 15m}}",
	},
	"NodeMetrics": {"metrics: [{name: m, query: " + promstub.Metric + ", prefer: Lower, weight: 1}]"},
	"Peaks":       {"nodePowerModels: [{k0: 470, k1: -91, k2: -0.07}]"},
}

// cpuOnly are the plugins that read memory, with the CPU, but do not use it.
var cpuOnly = map[string]bool{"Peaks": true, "TargetLoadPacking": true}

// prometheus is a Prometheus whose values, a multiple of unit, tell apart what was measured over which window.
func prometheus(t *testing.T, unit float64) *httptest.Server {
	t.Helper()
	stubs := map[string]*promstub.Server{}
	for i, window := range []string{"[1m", "[5m", "[15m"} {
		stubs[window] = &promstub.Server{}
		stubs[window].SetUtilization([]string{"a:9100", "b:9100"}, unit*float64(i+1), unit*(float64(i)+1.5))
	}
	server := check.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for window, stub := range stubs {
			if strings.Contains(r.FormValue("query"), window) {
				stub.ServeHTTP(w, r)
				return
			}
		}
		stubs["[5m"].ServeHTTP(w, r)
	}))
	return server
}

// fakeCluster is a simulated cluster whose load one Prometheus has.
type fakeCluster struct {
	*sim.Scheduler
	profiles []schedulerconfig.KubeSchedulerProfile
	objects  []runtime.Object
	reader   *reading.Reader
}

// configuration returns one profile with the plugin.
func configuration(plugin, args, address string) string {
	if !strings.HasPrefix(args, "{") {
		args = "{" + args + "}"
	}
	args = fmt.Sprintf("{metricProvider: {type: Prometheus, address: %q, dialect: NodeExporter}, %s", address, args[1:])
	return fmt.Sprintf(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: byload
  plugins: {multiPoint: {enabled: [{name: %s}]}}
  pluginConfig: [{name: %s, args: %s}]
`, plugin, plugin, args)
}

// write writes the configuration to a file.
func write(t *testing.T, configuration string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "scheduler.yaml")
	check.OK(t, os.WriteFile(file, []byte(configuration), 0o600))
	return file
}

func newCluster(t *testing.T, plugin, args string) *fakeCluster {
	t.Helper()
	content := configuration(plugin, args, prometheus(t, 0.1).URL)
	object, _, err := scheme.Codecs.UniversalDecoder().Decode([]byte(content), nil, nil)
	check.OK(t, err)
	c := &fakeCluster{profiles: object.(*schedulerconfig.KubeSchedulerConfiguration).Profiles}
	for _, name := range []string{"a", "b"} {
		c.objects = append(c.objects, st.MakeNode().Name(name).
			Capacity(map[corev1.ResourceName]string{"cpu": "8", "memory": "16Gi", "pods": "110"}).Obj())
	}
	c.objects = append(c.objects, waiting())
	registry := metrics.NewKubeRegistry()
	p := provider.NewOnDemand(clock.RealClock{}, registry, sources.Account{}, nil)
	c.Scheduler, err = sim.New(t.Context(), sim.Options{
		Configuration: object.(*schedulerconfig.KubeSchedulerConfiguration), Objects: c.objects,
		Plugins: plugins.NewRegistry(p, clock.RealClock{}, registry.MustRegister),
	})
	check.OK(t, err)
	p.Refresh(t.Context())
	source := p.Sources()[0]
	check.OK(t, source.Err)
	c.reader = source.Readers[0]
	return c
}

func waiting() *corev1.Pod {
	return st.MakePod().Namespace("ns").Name("p").UID("p").SchedulerName("byload").
		Req(map[corev1.ResourceName]string{"cpu": "1", "memory": "1Gi"}).Obj()
}

// TestEveryStatistic asks every tool for every statistic of every plugin. They name the same figures, measured over the same
// windows.
func TestEveryStatistic(t *testing.T) {
	for _, d := range plugins.All() {
		if d.Reads == nil {
			continue
		}
		rows := statisticsOf[d.Name]
		if len(rows) == 0 {
			rows = []string{"window: 1m"}
		}
		for _, args := range rows {
			t.Run(d.Name+"/"+args, func(t *testing.T) {
				c := newCluster(t, d.Name, args)
				figures := c.reader.Figures(framework.NewCycleState(), "a")
				for _, f := range figures {
					if f.State != load.Fresh || f.End.IsZero() || time.Since(f.End) > 5*time.Minute {
						t.Errorf("reader: %+v is not fresh", f)
					}
					low, ok := map[time.Duration]float64{time.Minute: 0.1, 5 * time.Minute: 0.2, 15 * time.Minute: 0.3}[f.Window]
					if c.reader.NodeMetrics() == nil && (!ok || f.Value < low || f.Value > low+0.05) {
						t.Errorf("reader: %+v was not measured over the window", f)
					}
				}
				checkTop(t, c, figures)
				checkExplain(t, c, d.Name, figures)
				checkWhatIf(t, c, d.Name, figures)
				used := slices.Clone(figures)
				if request := c.reader.Request(); c.reader.NodeMetrics() == nil && request.Ignores[load.Memory] {
					used = used[:load.Memory]
				}
				checkDoctor(t, d.Name, args, used)
				if c.reader.NodeMetrics() == nil { // a replay has none
					checkReplay(t, d.Name, args)
				}
			})
		}
	}
}

func checkTop(t *testing.T, c *fakeCluster, figures []reading.Figure) {
	t.Helper()
	r, err := top.New(c.Scheduler, c.profiles, top.Options{})
	if c.reader.NodeMetrics() != nil {
		check.Error(t, err, "no profile has a plugin that reads load")
		return
	}
	check.OK(t, err)
	nodes := check.Value(r.Nodes(t.Context(), top.Selection{Names: []string{"a"}}))(t)
	pods := check.Value(r.Pods(t.Context(), []string{"a"}, ""))(t)
	for _, node := range []*top.Row{nodes.Nodes[0], pods.Node} {
		for i, of := range node.Resources() {
			want := figures[i]
			if of.State != "Fresh" || of.MeasuredPercent == nil || *of.MeasuredPercent != 100*want.Value ||
				of.Window != want.Window.String() || of.Quantile != want.Fraction {
				t.Errorf("top: %s is %+v, want %+v", want.Name, of, want)
			}
		}
	}
}

// checkExplain looks for the figures among the terms.
func checkExplain(t *testing.T, c *fakeCluster, plugin string, figures []reading.Figure) {
	t.Helper()
	result := check.Value(explain.Explain(t.Context(), c.Scheduler, explain.Options{Pod: waiting()}))(t)
	got := map[string]float64{}
	for i := range result.Candidates {
		for _, terms := range result.Candidates[i].Terms {
			for _, term := range terms.Terms {
				if result.Candidates[i].Name == "a" && terms.Plugin == plugin {
					got[term.Name] = term.Value
				}
			}
		}
	}
	for _, f := range figures {
		name, want := f.Name+" measured", 100*f.Value
		switch {
		case c.reader.NodeMetrics() != nil:
			name, want = "m", f.Value
		case f.Fraction > 0:
			name = fmt.Sprintf("%s measured, quantile %g", f.Name, f.Fraction)
		case cpuOnly[plugin] && f.Name == "memory":
			continue
		}
		if value, ok := got[name]; !ok || math.Abs(value-want) > 1e-9 {
			t.Errorf("explain: %v, want %s %v", got, name, want)
		}
	}
}

// checkWhatIf expects the figures before a pod is placed. Nothing is pending: they are the measured ones, and one deviation where
// LoadThreshold adds it.
func checkWhatIf(t *testing.T, c *fakeCluster, plugin string, figures []reading.Figure) {
	t.Helper()
	plan := check.Value(whatif.NewPlan(c.objects, whatif.Scenario{Pending: true, Drain: []string{"a"}}))(t)
	out := check.Value(plan.Run(t.Context(), c.Scheduler, whatif.RunOptions{Profiles: []string{"byload"}}))(t)
	node := out.Nodes[slices.IndexFunc(out.Nodes, func(n whatif.ChangedNode) bool { return n.Name == "a" })]
	if c.reader.NodeMetrics() != nil {
		if out.LinePlugin != "" || node.CPU.BeforePercent != nil {
			t.Errorf("what-if: %+v, want no load", node)
		}
		return
	}
	if want := c.reader.Request().Fraction; out.LineQuantile != want || out.LinePlugin != plugin {
		t.Errorf("what-if: quantile %v of %s, want %v of %s", out.LineQuantile, out.LinePlugin, want, plugin)
	}
	state := framework.NewCycleState()
	for i, got := range []whatif.Load{load.CPU: node.CPU, load.Memory: node.Memory} {
		want := figures[i].Value
		if plugin == "LoadThreshold" && c.reader.Request().UsesDeviation {
			want += c.reader.Snapshots().ForCycle(state).Over(figures[i].Window).Node("a")[i].StdDev
		}
		if got.BeforePercent == nil || math.Abs(*got.BeforePercent-100*want) > 1e-9 || got.ByRequests {
			t.Errorf("what-if: %s is %+v, want %v%% before", figures[i].Name, got, 100*want)
		}
	}
}

// checkDoctor lets doctor name each figure, because each is 0, or what was read of a node metric.
func checkDoctor(t *testing.T, plugin, args string, figures []reading.Figure) {
	t.Helper()
	report := diagnose(t, configuration(plugin, args, prometheus(t, 0).URL))
	id, list := "values.zero", ""
	if plugin == "NodeMetrics" {
		id = "source.metrics"
	}
	for _, check := range report.Checks {
		if check.ID == id {
			list = check.Message
		}
	}
	for _, f := range figures {
		over := " over " + model.Duration(f.Window).String() + ","
		want := " a " + f.Name + over
		switch {
		case plugin == "NodeMetrics":
			want = fmt.Sprintf("%q has a value for 2 nodes", f.Name)
		case f.Fraction > 0:
			want = fmt.Sprintf(" a %s %g-quantile%s", f.Name, f.Fraction, over)
		}
		if !strings.Contains(list+",", want) {
			t.Errorf("doctor: %s is %q, want one with %q", id, list, want)
		}
	}
}

func diagnose(t *testing.T, configuration string) *doctor.Report {
	t.Helper()
	conn := check.Value(cluster.Connect(&rest.Config{Host: apiServer(t).URL}, "default", false))(t)
	report := check.Value(doctor.Run(t.Context(), conn,
		doctor.Options{Configuration: cluster.ConfigurationOptions{File: write(t, configuration)}}))(t)
	return report
}

// TestDoctor_OldSamples expects time.age to find samples that are too old, however old, whose values the source still returns.
func TestDoctor_OldSamples(t *testing.T) {
	for age, want := range map[time.Duration]doctor.Status{
		10 * time.Second: doctor.OK, 3 * time.Minute: doctor.Warning, 6 * time.Minute: doctor.Error, time.Hour: doctor.Error,
	} {
		stub := &promstub.Server{Age: age}
		stub.SetInstances([]string{"a:9100", "b:9100"})
		server := check.Serve(t, stub)
		checks := diagnose(t, configuration("TargetLoadPacking", "window: 1m", server.URL)).Checks
		i := slices.IndexFunc(checks, func(c doctor.Result) bool { return c.ID == "time.age" })
		if i < 0 || checks[i].Status != want || want == doctor.Error && !strings.Contains(checks[i].Message, "too old to be used") {
			t.Errorf("samples are %s old: %+v, want %s", age, checks, want)
		}
	}
}

// apiServer has the nodes a and b, and forbids all else.
func apiServer(t *testing.T) *httptest.Server {
	t.Helper()
	server := check.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/version":
			_, _ = io.WriteString(w, `{"major": "1", "minor": "36", "gitVersion": "v1.36.0"}`)
		case "/api/v1/nodes":
			_, _ = io.WriteString(w, `{"kind": "NodeList", "apiVersion": "v1", "items": [
				{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]}`)
		case "/api/v1/pods":
			_, _ = io.WriteString(w, `{"kind": "PodList", "apiVersion": "v1", "items": []}`)
		default:
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403}`)
		}
	}))
	return server
}

// checkReplay expects the profile to place a pod. Which figures it reads there is tested beside the engine.
func checkReplay(t *testing.T, plugin, args string) {
	t.Helper()
	args = strings.ReplaceAll(args, promstub.Metric, `"instance:node_cpu_utilisation:rate5m"`)
	policies := check.Value(engine.ReadPolicies(write(t, configuration(plugin, args, "http://prometheus:9090"))))(t)
	in := &input.Input{
		Start: time.Unix(1_700_000_000, 0), Length: 10 * time.Minute, Counted: 10 * time.Minute,
		Nodes:     []input.Node{{Name: "a", Capacity: input.Amounts{CPUMillis: 1000, MemoryBytes: 1 << 30}}},
		Workloads: []input.Workload{{Namespace: "ns", Name: "w"}},
		Pods:      []input.Pod{{Arrival: 5 * time.Minute, Lifetime: time.Hour, Trace: []float32{1}, CPUMillis: 100, Noise: -1}},
	}
	report := check.Value(replay.Replay(t.Context(), replay.Options{Inputs: []*input.Input{in}, Policies: policies}))(t)
	if runs := report.Policies[0].Runs; len(runs) != 1 || runs[0].Pending != 0 {
		t.Errorf("replay: %+v, want one with the pod placed", runs)
	}
}

// Package inspect_test holds what all tools have to agree on.
package inspect_test

import (
	"fmt"
	"math"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/metrics"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"k8s.io/utils/clock"

	_ "github.com/plimsoll-scheduler/plimsoll/apis/config/scheme" // the scheduler's scheme knows the plugins' arguments
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/whatif"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
	"github.com/plimsoll-scheduler/plimsoll/test/perf/promstub"
)

// statisticsOf are the arguments of each plugin that choose what it reads. A new plugin has to be added.
var statisticsOf = map[string][]string{
	"LoadThreshold": {
		"statistic: Mean", "statistic: MeanPlusStdDev", "statistic: P95", "statistic: Max", "statistic: PredictedPeak",
		"{statistic: P95, windows: {cpu: 1m, memory: 15m}}", "{statistic: Max, windows: {cpu: 1m, memory: 15m}}",
	},
	"LoadVariationRiskBalancing": {"window: 1m"},
	"LowRiskOverCommitment":      {"window: 1m"},
	"NodeMetrics":                {"metrics: [{name: m, query: " + promstub.Metric + ", prefer: Lower, weight: 1}]"},
	"Peaks":                      {"nodePowerModels: [{k0: 470, k1: -91, k2: -0.07}]"},
	"PredictedPeak":              {"window: 1m"},
	"TargetLoadPacking":          {"window: 1m"},
}

// cluster is a simulated cluster whose load one Prometheus has.
type cluster struct {
	*sim.Scheduler
	profiles []schedulerconfig.KubeSchedulerProfile
	objects  []runtime.Object
	reader   *reading.Reader
}

func newCluster(t *testing.T, plugin, args string) *cluster {
	t.Helper()
	stub := &promstub.Server{}
	stub.SetInstances([]string{"a:9100", "b:9100"})
	server := httptest.NewServer(stub)
	t.Cleanup(server.Close)
	if !strings.HasPrefix(args, "{") {
		args = "{" + args + "}"
	}
	args = fmt.Sprintf("{metricProvider: {type: Prometheus, address: %q, dialect: NodeExporter}, %s", server.URL, args[1:])
	object, _, err := scheme.Codecs.UniversalDecoder().Decode(fmt.Appendf(nil, `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: byload
  plugins: {multiPoint: {enabled: [{name: %s}]}}
  pluginConfig: [{name: %s, args: %s}]
`, plugin, plugin, args), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{profiles: object.(*schedulerconfig.KubeSchedulerConfiguration).Profiles}
	for _, name := range []string{"a", "b"} {
		c.objects = append(c.objects, st.MakeNode().Name(name).
			Capacity(map[corev1.ResourceName]string{"cpu": "8", "memory": "16Gi", "pods": "110"}).Obj())
	}
	c.objects = append(c.objects, waiting())
	registry := metrics.NewKubeRegistry()
	p := provider.NewOnDemand(clock.RealClock{}, registry, provider.Account{})
	c.Scheduler, err = sim.New(t.Context(), sim.Options{
		Configuration: object.(*schedulerconfig.KubeSchedulerConfiguration), Objects: c.objects,
		Plugins: plugins.NewRegistry(p, clock.RealClock{}, registry.MustRegister),
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Refresh(t.Context())
	source := p.Sources()[0]
	if source.Err != nil {
		t.Fatal(source.Err)
	}
	c.reader = source.Readers[0]
	return c
}

func waiting() *corev1.Pod {
	return st.MakePod().Namespace("ns").Name("p").UID("p").SchedulerName("byload").
		Req(map[corev1.ResourceName]string{"cpu": "1", "memory": "1Gi"}).Obj()
}

// TestEveryStatistic asks every tool for every statistic of every plugin: they name the same figures, and what was measured over
// which window.
func TestEveryStatistic(t *testing.T) {
	for _, d := range plugins.All() {
		rows := statisticsOf[d.Name]
		if len(rows) == 0 {
			t.Errorf("%s is in no row", d.Name)
		}
		for _, args := range rows {
			t.Run(d.Name+"/"+args, func(t *testing.T) {
				c := newCluster(t, d.Name, args)
				figures := c.reader.Figures(framework.NewCycleState(), "a")
				for _, f := range figures {
					if f.State != load.Fresh || f.End.IsZero() || time.Since(f.End) > time.Minute {
						t.Errorf("reader: %+v is not fresh", f)
					}
				}
				checkTop(t, c, figures)
				checkExplain(t, c, d.Name, figures)
				checkWhatIf(t, c)
			})
		}
	}
}

func checkTop(t *testing.T, c *cluster, figures []reading.Figure) {
	t.Helper()
	r, err := top.New(c.Scheduler, c.profiles, top.Options{})
	if c.reader.NodeMetrics() != nil {
		if err == nil || !strings.Contains(err.Error(), "no profile has a plugin that reads load") {
			t.Errorf("top: error %v, want one that says that no load is read", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := r.Nodes(t.Context(), top.Selection{Names: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	pods, err := r.Pods(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range []*top.Node{nodes.Nodes[0], pods.Node} {
		for i, of := range node.Resources() {
			want := figures[i]
			if of.State != "Fresh" || of.MeasuredPercent == nil || *of.MeasuredPercent != 100*want.Value ||
				of.Window != want.Window.String() || of.Quantile != want.Fraction {
				t.Errorf("top: %s is %+v, want %+v", want.Name, of, want)
			}
		}
	}
}

// checkExplain looks for the figures among the terms, whatever they are called.
func checkExplain(t *testing.T, c *cluster, plugin string, figures []reading.Figure) {
	t.Helper()
	result, err := explain.Explain(t.Context(), c.Scheduler, explain.Options{Pod: waiting()})
	if err != nil {
		t.Fatal(err)
	}
	for i := range result.Candidates {
		node := &result.Candidates[i]
		if node.Name != "a" {
			continue
		}
		for _, terms := range node.Terms {
			if terms.Plugin != plugin {
				continue
			}
			for _, term := range terms.Terms {
				f := figures[0]
				if strings.HasPrefix(term.Name, "memory") {
					f = figures[1]
				}
				if strings.HasPrefix(term.Name, f.Name+" measured") && math.Abs(term.Value-100*f.Value) > 1e-9 {
					t.Errorf("explain: %+v, want %+v", term, f)
				}
				if quantile := fmt.Sprintf(
					"quantile %g",
					f.Fraction,
				); f.Fraction > 0 && strings.Contains(term.Name, "measured") &&
					!strings.Contains(term.Name, quantile) {
					t.Errorf("explain: %+v does not name %s", term, quantile)
				}
			}
			return
		}
	}
	t.Errorf("explain: no terms of %s on node a: %+v", plugin, result.Candidates)
}

func checkWhatIf(t *testing.T, c *cluster) {
	t.Helper()
	plan, err := whatif.NewPlan(c.objects, whatif.Scenario{Pending: true})
	if err != nil {
		t.Fatal(err)
	}
	out, err := plan.Run(t.Context(), c.Scheduler, whatif.RunOptions{Profiles: []string{"byload"}})
	if err != nil {
		t.Fatal(err)
	}
	if want := c.reader.Request().Fraction; out.LineQuantile != want {
		t.Errorf("what-if: quantile %v, want %v", out.LineQuantile, want)
	}
}

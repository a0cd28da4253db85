package engine

import (
	"fmt"
	"math"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// TestLoadProvider_EveryStatistic expects each plugin to read the statistic that its arguments ask for.
func TestLoadProvider_EveryStatistic(t *testing.T) {
	const prometheus = `metricProvider: {type: Prometheus, address: "http://prometheus:9090"}, `
	// The ten ticks of five minutes have the CPU utilizations 0.9, 8 times 0.1, and 0.6. The last minute has 0.1 and 0.6.
	const mean5, mean1 = 0.23, 0.35
	// √(0.125 - 0.23²), where 0.125 is the mean square, and half of the distance from 0.1 to 0.6
	const deviation5, deviation1 = 0.26851, 0.25
	type row struct {
		value, deviation float64
		peak             bool
	}
	rows := map[string]map[string]row{
		"LoadThreshold": {
			"statistic: Mean":                              {value: mean5},
			"statistic: Mean, windows: {cpu: 1m}":          {value: mean1},
			"statistic: MeanPlusStdDev":                    {value: mean5, deviation: deviation5},
			prometheus + "statistic: P95":                  {value: 0.765}, // rank 0.95·9 = 8.55: 0.6 + 0.55·0.3
			prometheus + "statistic: P95, window: 1m":      {value: 0.575}, // rank 0.95: 0.1 + 0.95·0.5
			prometheus + "statistic: Max":                  {value: 0.9},
			prometheus + "statistic: Max, window: 1m":      {value: 0.6},
			"statistic: PredictedPeak, windows: {cpu: 1m}": {value: mean1, peak: true},
		},
		"Peaks": {"window: 1m, nodePowerModels: [{k0: 470, k1: -91, k2: -0.07}]": {value: mean1}},
	}
	for _, d := range plugins.All() {
		if d.Reads == nil || d.Name == config.NodeMetrics { // a replay has no node metrics
			continue
		}
		chosen, others := rows[d.Name], len(rows[d.Name]) == 0
		if others {
			chosen = map[string]row{"window: 1m": {value: mean1}}
		}
		for args, want := range chosen {
			t.Run(d.Name+"/"+args, func(t *testing.T) {
				const profile = builtinProfile + "  pluginConfig: [{name: %[3]s, args: {%[5]s}}]\n"
				configuration := check.Value(configlint.Decode(fmt.Appendf(nil, profile, 0, "p", d.Name, "", args)))(t)
				p := Policy{Name: "p", configuration: configuration}
				e := check.Value(newEngine(t.Context(), tiny(nil), p))(t)
				for _, u := range []float64{0.9, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.6} {
					for node := range e.nodes {
						e.measured.add(node, podusage.Amounts{load.CPU: u, load.Memory: 0.5})
					}
					e.measured.next()
				}
				e.clock.SetTime(e.Start.Add(10 * input.Tick))
				check.OK(t, e.provider.refresh(t.Context()))
				asked := d.Reads(argsOf(t, p, d.Name))
				if others { // TestReads expects what they read
					if want.peak = asked.Peak != nil; asked.UsesDeviation {
						want.deviation = deviation1
					}
				}
				readers := e.scheduler.LoadReaders("p")
				if len(readers) == 0 {
					t.Fatal("the profile reads no load")
				}
				reader := readers[0].Reader()
				cycle, request := framework.NewCycleState(), reader.Request()
				f := reader.Figures(cycle, "a")[0]
				got := row{value: f.Value, peak: request.Peak != nil}
				if request.UsesDeviation {
					got.deviation = f.StdDev
				}
				if math.Abs(got.value-want.value) > 1e-5 || math.Abs(got.deviation-want.deviation) > 1e-5 || got.peak != want.peak {
					t.Errorf("%+v, want %+v", got, want)
				}
			})
		}
	}
}

// argsOf returns the arguments of a plugin.
func argsOf(t *testing.T, p Policy, plugin string) runtime.Object {
	t.Helper()
	for _, c := range p.configuration.Profiles[0].PluginConfig {
		if c.Name == plugin {
			return c.Args
		}
	}
	t.Fatalf("no arguments of %s", plugin)
	return nil
}

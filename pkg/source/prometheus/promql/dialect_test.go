package promql

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

const window = 5 * time.Minute

func TestKubePrometheus_FiveMinuteMeanIsRule(t *testing.T) {
	if got := KubePrometheus.expression(load.CPU, Labels{"node"}, samplingOf(5*time.Minute)).mean; strings.Contains(got, "avg_over_time") {
		t.Errorf("an average of the average: %s", got)
	}
	if got := KubePrometheus.expression(load.CPU, Labels{"node"}, samplingOf(15*time.Minute)).mean; !strings.Contains(got, "[15m:1m]") {
		t.Errorf("not over fifteen minutes: %s", got)
	}
}

func TestKubePrometheus_Span(t *testing.T) {
	for window, want := range map[time.Duration]time.Duration{10 * time.Second: 310 * time.Second, 5 * time.Minute: 0,
		15 * time.Minute: 20 * time.Minute} {
		if got := KubePrometheus.expression(load.CPU, Labels{"node"}, samplingOf(window)).span; got != want {
			t.Errorf("over %v: span %v, want %v", window, got, want)
		}
	}
}

func TestSamplingOf(t *testing.T) {
	const ms, s, m = model.Duration(time.Millisecond), model.Duration(time.Second), model.Duration(time.Minute)
	for _, tt := range []struct {
		window time.Duration
		want   sampling
	}{
		// A tenth of the window, four of these for the rate, at least 60 s of grace.
		{10 * time.Second, sampling{window: 10 * s, step: s, rate: 4 * s, recentSeconds: 60, shorter: []model.Duration{5 * s,
			2500 * ms}}},
		{5 * time.Second, sampling{window: 5 * s, step: s, rate: 4 * s, recentSeconds: 60, shorter: []model.Duration{2500 * ms}}},
		{5 * time.Minute, sampling{window: 5 * m, step: 30 * s, rate: 2 * m, recentSeconds: 120, shorter: []model.Duration{150 * s,
			75 * s}}},
		// The step is at most a minute, the rate at most two.
		{15 * time.Minute, sampling{window: 15 * m, step: m, rate: 2 * m, recentSeconds: 120, shorter: []model.Duration{450 * s, 225 * s,
			112500 * ms}}},
		// Whole seconds: 95/10 is 9.
		{95 * time.Second, sampling{window: 95 * s, step: 9 * s, rate: 36 * s, recentSeconds: 60, shorter: []model.Duration{47500 * ms,
			23750 * ms}}},
	} {
		if diff := cmp.Diff(tt.want, samplingOf(tt.window), cmp.AllowUnexported(sampling{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.window, diff)
		}
	}
}

// TestDialectQueries_Parse checks that all queries are PromQL, and call timestamp() only for selectors.
// For any other expression Prometheus returns the time of the evaluation.
func TestDialectQueries_Parse(t *testing.T) {
	for _, dialect := range Dialects() {
		for r := range load.ResourceCount {
			queries := []string{dialect.newestSample(r, Labels{"node", "instance"})}
			for _, window := range []time.Duration{10 * time.Second, window, time.Hour} {
				e := dialect.expression(r, Labels{"node", "instance"}, samplingOf(window))
				queries = append(queries, e.mean, e.stdDev)
			}
			for _, promql := range queries {
				parsed, err := parser.NewParser(parser.Options{}).ParseExpr(promql)
				if err != nil {
					t.Errorf("%s, %s: %v", dialect, r, err)
					continue
				}
				parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
					if call, ok := node.(*parser.Call); ok && call.Func.Name == "timestamp" {
						if _, ok := call.Args[0].(*parser.VectorSelector); !ok {
							t.Errorf("%s, %s: timestamp() of an expression in %s", dialect, r, promql)
						}
					}
					return nil
				})
			}
		}
	}
}

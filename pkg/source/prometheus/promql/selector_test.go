package promql

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// TestPlanner_SelectorInEveryQuery looks for the matchers in each selector of all queries of all dialects.
func TestPlanner_SelectorInEveryQuery(t *testing.T) {
	const selector = `{namespace="monitoring",job=~"node-.*"}`
	p := Planner{By: Labels{"node", "instance"}, Selector: ParseSelector(selector)}
	day := []load.Quantile{{Window: 24 * time.Hour, Fraction: 0.95}}
	for _, dialect := range Dialects() {
		queries := append(p.Load(dialect, []time.Duration{window}, day), p.Probe(dialect, window))
		texts := []string{p.SampleSelector(dialect), p.Series(dialect, load.CPU)}
		for i := range queries {
			texts = append(texts, queries[i].PromQL)
		}
		for _, text := range texts {
			parsed := parse(text)
			if parsed == nil {
				if text != "" { // the rules have alternatives, which are no selector
					t.Errorf("%s: %s is no PromQL", dialect, text)
				}
				continue
			}
			parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
				if s, ok := node.(*parser.VectorSelector); ok && (!strings.Contains(s.String(), `namespace="monitoring"`) ||
					!strings.Contains(s.String(), `job=~"node-.*"`)) {
					t.Errorf("%s: %s has not the selector, in %s", dialect, s, text)
				}
				return nil
			})
		}
	}
}

func TestPlanner_NoSelectorChangesNothing(t *testing.T) {
	p := Planner{By: Labels{"node"}, Selector: ParseSelector("")}
	if got, want := p.Series(Kubelet, load.CPU), "node_cpu_usage_seconds_total"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

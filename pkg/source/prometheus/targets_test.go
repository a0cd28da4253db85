package prometheus

import (
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
)

// TestFetch_WhoseSeriesCount has a tenant's target beside the exporter of w1. Both are of one rank where their instances are alike.
func TestFetch_WhoseSeriesCount(t *testing.T) {
	of := func(instance, namespace, value string) element {
		return element{`"instance":"` + instance + `","node":"w1","job":"a","namespace":"` + namespace + `"`, value}
	}
	for _, tt := range []struct {
		name      string
		series    []element
		want      float64
		contested bool
	}{
		{"the node's own address before others", []element{of("10.8.0.1:80", "tenant", "0.9"), of("10.0.0.1:9100", "monitoring", "0.25")}, 0.25, false},
		{"the node's own name before others", []element{of("w1:9100", "monitoring", "0.25"), of("10.8.0.1:80", "tenant", "0.9")}, 0.25, false},
		{"another node's address is not its own", []element{of("[fd00::2]:9100", "tenant", "0.9"), of("w1", "monitoring", "0.25")}, 0.25, false},
		{"two at the node's address differ by more than 5 points",
			[]element{of("10.0.0.1:9100", "monitoring", "0.25"), of("10.0.0.1:30000", "tenant", "0.31")}, 0, true},
		{"two at the node's address differ by less: the higher", []element{of("10.0.0.1:9100", "monitoring", "0.25"), of("w1", "tenant", "0.29")}, 0.29, false},
		{"two elsewhere differ", []element{of("10.8.0.1:80", "monitoring", "0.25"), of("10.8.0.2:80", "tenant", "0.9")}, 0, true},
		{"a third between the two", []element{of("w1", "a", "0.1"), of("w1", "b", "0.14"), of("w1", "c", "0.18")}, 0, true},
		{"pods of one target set, as in a rollout: the higher", []element{of("10.8.0.1:80", "monitoring", "0.25"), of("10.8.0.2:80", "monitoring", "0.9")}, 0.9, false},
		{"a number that is none contests nothing", []element{of("w1", "monitoring", "0.25"), of("w1", "tenant", "NaN")}, 0.25, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := newServer(t, rule{"", vector(tt.series...)})
			s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.NodeExporter, NodeLabels: []string{"node"}}, twoNodes()...)
			var log logged
			var batch source.Batch
			for range 3 {
				batch, _ = s.Fetch(log.context(t), source.Request{Windows: []time.Duration{window}})
			}
			if got := len(batch.Contested) == 1 && batch.Contested[0].Node == "w1"; got != tt.contested {
				t.Errorf("contested %+v, want w1: %t", batch.Contested, tt.contested)
			}
			if tt.contested != (len(batch.Samples) == 0) || !tt.contested && batch.Samples[0].Stats[0].Mean != tt.want {
				t.Errorf("samples %+v, want %v", batch.Samples, tt.want)
			}
			lines := log.take()
			if got := countContaining(lines, "scored by what their pods request"); (got == 1) != tt.contested {
				t.Errorf("%q, want one line about a contested node in three refreshes: %t", lines, tt.contested)
			}
			if tt.contested && !strings.Contains(strings.Join(lines, ""), "namespace=") {
				t.Errorf("%q, want the target sets", lines)
			}
		})
	}
}

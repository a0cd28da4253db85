package prometheus

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
)

// TestFetch_ContestedNode has a tenant's target name w1 for three refreshes, and then no more.
func TestFetch_ContestedNode(t *testing.T) {
	honest := element{`"instance":"10.0.0.1:9100","job":"node-exporter","namespace":"monitoring"`, "0.25"}
	forged := element{`"instance":"10.8.0.1:80","node":"w1","job":"a","namespace":"tenant"`, "0.9"}
	srv := newServer(t, rule{"", vector(forged, honest)})
	srv.newest = vector(honest)
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.NodeExporter}, newNode("w1", "10.0.0.1"))
	var log logged
	for range 3 {
		batch, err := s.Fetch(log.context(t), source.Request{Windows: []time.Duration{window}})
		if err != nil {
			t.Fatal(err)
		}
		if batch.ContestedCount != 1 || len(batch.Samples) == 0 || batch.Samples[0].Stats[0].Mean != 0.25 {
			t.Errorf("%d contested, samples %v; want 1, and 0.25 of the exporter", batch.ContestedCount, batch.Samples)
		}
	}
	lines := log.take()
	if countContaining(lines, "Several target sets") != 1 || !strings.Contains(strings.Join(lines, ""), `namespace=\"tenant\"`) {
		t.Errorf("%q, want one line in three refreshes that names the tenant's set", lines)
	}
	srv.setRules(rule{"", vector(honest)})
	fetch(t, s)
	if s.Diagnosis().Conflict != nil {
		t.Errorf("conflict %v, want none", s.Diagnosis().Conflict)
	}
}

// TestFetch_TooManySeries has a tenant's target name a node by more series than a response may have.
func TestFetch_TooManySeries(t *testing.T) {
	honest := []element{
		{`"instance":"10.0.0.1:9100","job":"node-exporter","namespace":"monitoring"`, "0.25"},
		{`"instance":"[fd00::2]:9100","job":"node-exporter","namespace":"monitoring"`, "0.25"},
	}
	var forged []element
	for i := range 5000 { // the bound for two nodes is 4,112
		forged = append(forged, element{fmt.Sprintf(`"instance":"10.8.0.1:80","node":"w1","hostname":"h%d","namespace":"tenant"`, i), "0.9"})
	}
	srv := newServer(t, rule{"", vector(honest...)})
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.NodeExporter}, twoNodes()...)
	fetch(t, s)
	srv.setRules(rule{`job="node-exporter",namespace="monitoring",service=""`, vector(honest...)}, rule{"", vector(forged...)})
	var log logged
	for range 3 {
		batch, err := s.Fetch(log.context(t), source.Request{Windows: []time.Duration{window}})
		if err != nil || len(batch.Samples) != 2 || batch.ContestedCount != 2 {
			t.Fatalf("%d samples, %d contested, %v; want 2 and 2", len(batch.Samples), batch.ContestedCount, err)
		}
		for _, sample := range batch.Samples {
			if sample.Stats[0].Mean != 0.25 {
				t.Errorf("%s has %v, want 0.25", sample.Node, sample.Stats[0].Mean)
			}
		}
	}
	if lines := log.take(); countContaining(lines, "a set of targets with too many series") != 1 {
		t.Errorf("%q, want one line in three refreshes", lines)
	}
}

// TestFetch_TooManySeriesBesideTwoSets is TestFetch_TooManySeries with an exporter for each node, and a set in use that is too large.
func TestFetch_TooManySeriesBesideTwoSets(t *testing.T) {
	of := func(instance, job string) element {
		return element{`"instance":"` + instance + `","job":"` + job + `","namespace":"monitoring"`, "0.25"}
	}
	a, b := of("10.0.0.1:9100", "a"), of("[fd00::2]:9100", "b")
	tenant := func(i int) element {
		return element{fmt.Sprintf(`"instance":"10.0.0.3:80","hostname":"h%d","job":"a","namespace":"tenant"`, i), "0.9"}
	}
	var forged []element
	for i := range 5000 { // the bound for three nodes is 4,120
		forged = append(forged, tenant(i))
	}
	srv := newServer(t, rule{"", vector(a, b, tenant(0))})
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.NodeExporter}, append(twoNodes(), newNode("w3", "10.0.0.3"))...)
	if samples := fetch(t, s); len(samples) != 3 {
		t.Fatalf("%d samples, want 3", len(samples))
	}
	srv.setRules(rule{`job="a",namespace="monitoring",service=""`, vector(a)},
		rule{`job="b",namespace="monitoring",service=""`, vector(b)}, rule{"", vector(forged...)})
	for range 3 {
		batch, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window}})
		if err != nil || len(batch.Samples) != 2 || batch.ContestedCount != 2 {
			t.Fatalf("%d samples, %d contested, %v; want 2 and 2", len(batch.Samples), batch.ContestedCount, err)
		}
		for _, sample := range batch.Samples {
			if sample.Stats[0].Mean != 0.25 {
				t.Errorf("%s has %v, want 0.25", sample.Node, sample.Stats[0].Mean)
			}
		}
	}
	if q := s.Diagnosis().Queries[1]; q.Series != 2 || q.Nodes != 2 {
		t.Errorf("%s: %d series of %d nodes, want 2 of both sets", &q.Query, q.Series, q.Nodes)
	}
}

// TestFetch_KeepsTheSetInUse has a tenant's pods name as many nodes as the exporter, by a set that sorts first.
func TestFetch_KeepsTheSetInUse(t *testing.T) {
	of := func(namespace, value string) []element {
		return []element{
			{`"instance":"10.0.0.1:9100","namespace":"` + namespace + `"`, value},
			{`"instance":"[fd00::2]:9100","namespace":"` + namespace + `"`, value},
		}
	}
	honest, forged := of("monitoring", "0.25"), of("a-tenant", "0.9")
	srv := newServer(t, rule{"", vector(honest...)})
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.NodeExporter}, twoNodes()...)
	fetch(t, s)
	srv.setRules(rule{"", vector(append(forged, honest...)...)})
	for _, sample := range fetch(t, s) {
		if sample.Stats[0].Mean != 0.25 {
			t.Errorf("%s has %v, want 0.25", sample.Node, sample.Stats[0].Mean)
		}
	}
}

// TestFetch_TooManySamples has a tenant's series that need more samples than Prometheus allows.
func TestFetch_TooManySamples(t *testing.T) {
	honest := []element{
		{`"instance":"10.0.0.1:9100","job":"node-exporter","namespace":"monitoring"`, "0.25"},
		{`"instance":"[fd00::2]:9100","job":"node-exporter","namespace":"monitoring"`, "0.25"},
	}
	srv := newServer(t, rule{"", vector(honest...)})
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.NodeExporter}, twoNodes()...)
	fetch(t, s)
	refuse := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = w.Write([]byte(`{"status":"error","errorType":"execution","error":"query processing would load too many samples"}`))
	}
	srv.setRules(rule{`job="node-exporter",namespace="monitoring",service=""`, vector(honest...)}, rule{"", refuse})
	for range 2 {
		batch, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{window}})
		if err != nil || len(batch.Samples) != 2 || batch.ContestedCount != 2 {
			t.Fatalf("%d samples, %d contested, %v; want 2 and 2", len(batch.Samples), batch.ContestedCount, err)
		}
	}
}

// TestFetch_DeviationOfAnotherSet has a deviation of a tenant's target beside the mean of the exporter.
func TestFetch_DeviationOfAnotherSet(t *testing.T) {
	mean := element{`"instance":"10.0.0.1:9100","job":"node-exporter","namespace":"monitoring"`, "0.25"}
	deviation := element{`"instance":"10.8.0.1:80","node":"w1","job":"a","namespace":"tenant"`, "0.9"}
	srv := newServer(t, rule{"stddev_over_time", vector(deviation)}, rule{"", vector(mean)})
	srv.newest = vector(mean)
	s := newTestSource(t, Config{Address: srv.URL, Dialect: promql.NodeExporter}, newNode("w1", "10.0.0.1"))
	samples := fetch(t, s)
	if len(samples) == 0 || samples[0].Stats[load.CPU].Mean != 0.25 || !math.IsNaN(samples[0].Stats[load.CPU].StdDev) {
		t.Errorf("%+v, want the mean 0.25 without a deviation", samples)
	}
}

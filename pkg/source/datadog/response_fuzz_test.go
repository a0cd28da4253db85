package datadog

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/internal/jsonstream"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/hosted"
)

// FuzzDecodeResponse expects that each series is of one of the queries, and that a mean is a number.
func FuzzDecodeResponse(f *testing.F) {
	for _, seed := range []string{
		`{"data":{"id":"0","attributes":{"series":[{"group_tags":["host:n0"],"query_index":0,"unit":null}],"times":[1728623040000,` +
			`1728623100000],"values":[[5.8,null]]}}}`,
		`{"data":{"attributes":{"values":[[1],[]],"times":[1],"series":[{"query_index":1,"group_tags":["a","b:c"]},{"query_index":9}` +
			`]}},"errors":"x"}`,
		`{"errors":["Forbidden"]}`, `{"data":null}`, `{"data":{"attributes":{"series":[null],"times":null,"values":[null]}}}`,
		`{"data":{"attributes":{"series":[{"group_tags":["host:n0"],"query_index":0}],"times":[1,2],"values":[[1e308,1e308]]}}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		rng := hosted.Range{Step: time.Minute, Windows: []time.Duration{5 * time.Minute, 15 * time.Minute}}
		response, err := decodeResponse(jsonstream.NewDecoder(strings.NewReader(body), 1000), rng)
		if err != nil {
			return
		}
		table := hosted.NewTable(nodes(1), "", func(text string) string { return text })
		queries := (&Source{}).queries(Agent, time.Minute)
		visited := 0
		response.each(queries, rng, now, func(_ int, host string, r load.Resource, one hosted.Series) {
			visited++
			if r < 0 || r >= load.ResourceCount {
				t.Errorf("host %q has resource %d", host, r)
			}
			table.Offer("n0", r, rng, time.Time{}, one)
		})
		if visited > len(response.series) {
			t.Errorf("%d series of %d", visited, len(response.series))
		}
		for _, sample := range table.Samples(rng.Windows) {
			for _, stat := range sample.Stats {
				if stat.Known && math.IsNaN(stat.Mean) || stat.Span < 0 || sample.End.IsZero() {
					t.Errorf("sample %+v", sample)
				}
			}
		}
	})
}

// FuzzDecodeMetrics expects at most maxMetricNames names.
func FuzzDecodeMetrics(f *testing.F) {
	for _, seed := range []string{`{"results":{"metrics":["system.cpu.idle"],"hosts":[]}}`, `{"results":null}`,
		`{"results":{"metrics":[1,null,{}]}}`, `[]`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		if names, _ := decodeMetrics(jsonstream.NewDecoder(strings.NewReader(body), 1000)); len(names) > maxMetricNames {
			t.Errorf("%d names", len(names))
		}
	})
}

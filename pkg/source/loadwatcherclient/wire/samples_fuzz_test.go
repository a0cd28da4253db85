package wire

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// FuzzSamples checks that the samples of a document survive another document.
// So a load-watcher serves the load of another one unchanged.
func FuzzSamples(f *testing.F) {
	f.Add([]byte(example))
	f.Add(
		[]byte(
			`{"timestamp":1,"window":{"duration":"15m"},"data":{"NodeMetricsMap":{"a":{"metrics":[{"type":"CPU","operator":"Latest",` +
				`"value":7},{"type":"Memory","operator":"AVG","value":70.5},{"type":"Memory","operator":"STD","value":1}]}}}}`,
		),
	)
	f.Add(
		[]byte(
			`{"window":{"start":9,"end":10},"data":{"NodeMetricsMap":{"":{"metrics":[{"type":"CPU","value":-0},{"type":"CPU",` +
				`"operator":"STD","value":5e-324}]},` +
				`"\u2028<&>":{"metrics":[{"type":"Memory","operator":"AVG","value":1e308,"rollup":"1s"}]}}}}`,
		),
	)
	f.Add(
		[]byte(
			`{"timestamp":9223372036854775807,"window":{"duration":"2562047h47m16.854775807s"},` +
				`"data":{"NodeMetricsMap":{"a":{"metrics":[{"type":"CPU","operator":"AVG","value":1}]}}}}`,
		),
	)
	f.Fuzz(func(t *testing.T, text []byte) {
		document, err := Decode(bytes.NewReader(text), MaxBytes)
		if err != nil {
			return
		}
		first, err := document.Samples()
		if err != nil || len(first) == 0 {
			return
		}
		end, window := first[0].End, document.Window.span()
		for i := range first {
			s := &first[i]
			if !s.End.Equal(end) || s.Window != window && s.Window != 0 {
				t.Fatalf("%s ends at %s over %s, where the document is over %s", s.Node, s.End, s.Window, window)
			}
			for r := range s.Stats {
				stat := &s.Stats[r]
				if !stat.Known && *stat != (load.Stat{}) {
					t.Errorf("%s has values of a resource that is not known: %+v", s.Node, *stat)
				}
				// A value of the moment has no deviation in this format, and neither has a value over an unknown window.
				if s.Window == 0 {
					stat.StdDev = math.NaN()
				}
			}
		}
		encoded, err := json.Marshal(FromSamples(document.Source, end, window, first))
		if err != nil {
			t.Fatalf("encoding samples that were decoded: %v", err)
		}
		again, err := Decode(bytes.NewReader(encoded), MaxBytes)
		if err != nil {
			t.Fatalf("decoding what was encoded: %v", err)
		}
		second, err := again.Samples()
		if err != nil {
			t.Fatalf("the samples of what was encoded: %v", err)
		}
		// Percent and back is not exact.
		nearly := cmpopts.EquateApprox(1e-15, math.SmallestNonzeroFloat64)
		known := cmp.FilterValues(func(a, b load.Stat) bool { return !a.Known && !b.Known },
			cmp.Comparer(func(load.Stat, load.Stat) bool { return true }))
		if diff := cmp.Diff(first, second, nearly, cmpopts.EquateNaNs(), known, cmp.Comparer(time.Time.Equal)); diff != "" {
			t.Errorf("samples after one and two documents (-one +two):\n%s", diff)
		}
	})
}

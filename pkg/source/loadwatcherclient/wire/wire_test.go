package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// example is the document of the compatibility contract, with a deviation beside the mean.
const example = `{"timestamp":1700000000,"window":{"duration":"15m","start":1699999100,"end":1700000000},"source":"Prometheus",` +
	`"data":{"NodeMetricsMap":{"n1":{"metrics":[{"name":"cpu","type":"CPU","operator":"AVG","rollup":"15m","value":26.5},` +
	`{"name":"cpu","type":"CPU","operator":"STD","rollup":"15m","value":4}],"tags":{},"metadata":{"dataCenter":""}}}}}`

func exampleDocument() *Document {
	return &Document{
		Timestamp: 1700000000, Window: Window{Duration: "15m", Start: 1699999100, End: 1700000000}, Source: "Prometheus",
		Data: Data{NodeMetricsMap: map[string]NodeMetrics{"n1": {Metrics: []Metric{
			{Name: "cpu", Type: CPU, Operator: Average, Rollup: "15m", Value: new(26.5)},
			{Name: "cpu", Type: CPU, Operator: StandardDeviation, Rollup: "15m", Value: new(4.0)},
		}}}},
	}
}

func TestDecode(t *testing.T) {
	tests := []struct {
		name string
		text string
		want *Document
	}{
		{name: "all keys", text: example, want: exampleDocument()},
		{name: "white space and a line end do not matter", text: " " + strings.ReplaceAll(example, ",", ",\n ") + "\n", want: exampleDocument()},
		{
			name: "unknown keys are skipped",
			text: `{"apiVersion":2,"timestamp":5,"window":{"unit":"s","end":4},"data":{"NodeMetricsMap":{"n1":{"zone":{"a":[1]},` +
				`"metrics":[{"type":"CPU","value":1,"extra":null}],"tags":{"x":1}}},"more":true}}`,
			want: &Document{Timestamp: 5, Window: Window{End: 4}, Data: Data{NodeMetricsMap: map[string]NodeMetrics{"n1": {Metrics: []Metric{{Type: CPU, Value: new(1.0)}}}}}},
		},
		{name: "keys are case-sensitive", text: `{"Timestamp":5,"WINDOW":{"end":4},"data":{"nodeMetricsMap":{"n1":{}}},"Source":"x"}`, want: &Document{}},
		{
			name: "a key of the wrong case does not overrule the right one",
			text: `{"timestamp":5,"Timestamp":6,"data":{"NodeMetricsMap":{"n1":{"metrics":[{"value":1,"Value":99,"type":"CPU",` +
				`"Type":"Memory"}]}}}}`,
			want: &Document{Timestamp: 5, Data: Data{NodeMetricsMap: map[string]NodeMetrics{"n1": {Metrics: []Metric{{Type: CPU, Value: new(1.0)}}}}}},
		},
		{
			name: "a value that is absent or null is none, one of zero is zero",
			text: `{"data":{"NodeMetricsMap":{"n1":{"metrics":[{"type":"CPU"},{"type":"CPU","value":null},{"type":"CPU","value":0}]}}}}`,
			want: &Document{Data: Data{NodeMetricsMap: map[string]NodeMetrics{"n1": {Metrics: []Metric{{Type: CPU}, {Type: CPU}, {Type: CPU, Value: new(0.0)}}}}}},
		},
		{
			name: "values are unchanged", text: `{"data":{"NodeMetricsMap":{"n1":{"metrics":[{"value":-3},{"value":1e300}]}}}}`,
			want: &Document{Data: Data{NodeMetricsMap: map[string]NodeMetrics{"n1": {Metrics: []Metric{{Value: new(-3.0)}, {Value: new(1e300)}}}}}},
		},
		{name: "no node", text: `{"data":{"NodeMetricsMap":null}}`, want: &Document{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := check.Value(Decode(strings.NewReader(tt.text), MaxBytes))(t)
			check.Equal(t, "Decode()", tt.want, got)
		})
	}
}

func TestDecode_Errors(t *testing.T) {
	tests := []struct {
		name string
		text string
		want string
	}{
		{"an empty body", "", "empty"},
		{"a page", "<html>Please log in</html>", "not load-watcher's JSON: invalid character '<'"},
		{"a cut document", example[:100], "not load-watcher's JSON: unexpected EOF"},
		{"two documents", example + example, "not load-watcher's JSON: more follows the end"},
		{"a list", `[1]`, "not load-watcher's JSON: \"[\" where an object is needed"},
		{"a value that is text", `{"data":{"NodeMetricsMap":{"n1":{"metrics":[{"value":"12"}]}}}}`, "cannot unmarshal string into Go struct field"},
		{"a value beyond float64", `{"data":{"NodeMetricsMap":{"n1":{"metrics":[{"value":1e999}]}}}}`, "cannot unmarshal number 1e999"},
		{"a bare NaN", `{"data":{"NodeMetricsMap":{"n1":{"metrics":[{"value":NaN}]}}}}`, "invalid character 'N'"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, err := Decode(strings.NewReader(tt.text), MaxBytes)
			if err == nil {
				t.Fatalf("Decode() = %+v, want an error", d)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Decode() error = %q, want %q in it", err, tt.want)
			}
		})
	}
}

// blanks is an endless reader of white space, which JSON allows anywhere.
type blanks struct{}

func (blanks) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestDecode_TooLarge(t *testing.T) {
	// A host takes 256 bytes and a metric 128, as this document counts them.
	if _, err := Decode(strings.NewReader(example), 256+2*128); err != nil {
		t.Errorf("Decode() of as much as is allowed: %v", err)
	}
	if _, err := Decode(strings.NewReader(example), 256+2*128-1); !errors.Is(err, ErrTooLarge) {
		t.Errorf("Decode() of more: %v, want %v", err, ErrTooLarge)
	}
	if _, err := Decode(io.MultiReader(strings.NewReader(example), blanks{}), MaxBytes); err == nil {
		t.Error("Decode() of a document without end: no error")
	}
}

func TestDecode_ReaderError(t *testing.T) {
	want := errors.New("connection reset")
	if _, err := Decode(io.MultiReader(strings.NewReader(example), iotest.ErrReader(want)), MaxBytes); !errors.Is(err, want) {
		t.Errorf("Decode() error = %v, want %v", err, want)
	}
}

func TestDocument_KeysInOrder(t *testing.T) {
	content := check.Value(json.Marshal(exampleDocument()))(t)
	check.Equal(t, "JSON", example, string(content))
}

// metric is a value in percent with the document's own rollup.
func metric(resourceType, operator string, value float64) Metric {
	return Metric{Type: resourceType, Operator: operator, Rollup: "15m", Value: &value}
}

func known(mean, deviation float64) load.Stat {
	return load.Stat{Mean: mean, StdDev: deviation, Known: true}
}

func meanOnly(mean float64) load.Stat { return known(mean, math.NaN()) }

func TestSamples_OneNode(t *testing.T) {
	const quarter = 15 * time.Minute
	tests := []struct {
		name    string
		metrics []Metric
		want    *load.Sample // nil: no sample; Node and End are filled in
	}{
		{
			name:    "percent become fractions",
			metrics: []Metric{metric(CPU, Average, 26.5), metric(CPU, StandardDeviation, 4), metric(Memory, Average, 50), metric(Memory, StandardDeviation, 12.5)},
			want:    &load.Sample{Window: quarter, Stats: load.Stats{load.CPU: known(0.265, 0.04), load.Memory: known(0.5, 0.125)}},
		},
		{
			name:    "AVG is preferred to Latest and to an unstated operator",
			metrics: []Metric{metric(CPU, Unset, 90), metric(CPU, Latest, 80), metric(CPU, Average, 10), metric(CPU, Latest, 81), metric(CPU, Unset, 91)},
			want:    &load.Sample{Window: quarter, Stats: load.Stats{load.CPU: meanOnly(0.1)}},
		},
		{
			name: "Latest is preferred to an unstated operator, and alone is a sample of the moment", metrics: []Metric{metric(CPU, Latest, 10), metric(CPU, Unset, 90)},
			want: &load.Sample{Window: 0, Stats: load.Stats{load.CPU: meanOnly(0.1)}},
		},
		{
			name: "an unstated operator is a mean over the window", metrics: []Metric{metric(CPU, Unset, 10)},
			want: &load.Sample{Window: quarter, Stats: load.Stats{load.CPU: meanOnly(0.1)}},
		},
		{
			name: "Latest with a deviation is of the window that the deviation was measured over", metrics: []Metric{metric(CPU, Latest, 10), metric(CPU, StandardDeviation, 5)},
			want: &load.Sample{Window: quarter, Stats: load.Stats{load.CPU: known(0.1, 0.05)}},
		},
		{
			name: "Latest of one resource beside a mean of the other is taken as of the window", metrics: []Metric{metric(CPU, Average, 10), metric(Memory, Latest, 50)},
			want: &load.Sample{Window: quarter, Stats: load.Stats{load.CPU: meanOnly(0.1), load.Memory: meanOnly(0.5)}},
		},
		{
			name: "a deviation without any mean is not a value", metrics: []Metric{metric(CPU, StandardDeviation, 5), metric(Memory, Average, 50)},
			want: &load.Sample{Window: quarter, Stats: load.Stats{load.Memory: meanOnly(0.5)}},
		},
		{name: "a node with deviations alone has no sample", metrics: []Metric{metric(CPU, StandardDeviation, 5), metric(Memory, StandardDeviation, 5)}},
		{
			name: "other types and operators are skipped, and names are case-sensitive",
			metrics: []Metric{
				metric("Bandwidth", Average, 1), metric("Storage", Average, 2), metric("Energy", Average, 3), metric("Unknown", Average, 4),
				metric("cpu", Average, 5), metric(CPU, "MAX", 6), metric(CPU, "avg", 7),
			},
		},
		{
			name: "a metric without a value is none", metrics: []Metric{{Type: CPU, Operator: Average, Rollup: "15m"}, metric(CPU, Latest, 30)},
			want: &load.Sample{Stats: load.Stats{load.CPU: meanOnly(0.3)}},
		},
		{
			name: "of several values the highest is taken", metrics: []Metric{metric(CPU, Average, 20), metric(CPU, Average, 40), metric(CPU, Average, 30)},
			want: &load.Sample{Window: quarter, Stats: load.Stats{load.CPU: meanOnly(0.4)}},
		},
		{
			name: "impossible values are left out", metrics: []Metric{metric(CPU, Average, -10), metric(CPU, Latest, 30), metric(Memory, Average, 250)},
			want: &load.Sample{Window: quarter, Stats: load.Stats{load.CPU: meanOnly(0.3), load.Memory: meanOnly(2.5)}},
		},
		{name: "a node without metrics has no sample"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := exampleDocument()
			d.Data.NodeMetricsMap = map[string]NodeMetrics{"n1": {Metrics: tt.metrics}}
			want := []load.Sample{}
			if tt.want != nil {
				tt.want.Node, tt.want.End = "n1", time.Unix(1700000000, 0)
				want = append(want, *tt.want)
			}
			got := check.Value(d.Samples())(t)
			check.Equal(t, "Samples()", want, got, cmpopts.EquateNaNs())
		})
	}
}

func TestSamples_Window(t *testing.T) {
	tests := []struct {
		name       string
		timestamp  int64
		window     Window
		wantWindow time.Duration
		wantEnd    time.Time
		wantErr    error
	}{
		{name: "5m", timestamp: 1000, window: Window{Duration: "5m", Start: 600, End: 900}, wantWindow: 5 * time.Minute, wantEnd: time.Unix(900, 0)},
		{name: "10m", timestamp: 1000, window: Window{Duration: "10m", Start: 300, End: 900}, wantWindow: 10 * time.Minute, wantEnd: time.Unix(900, 0)},
		{name: "15m", timestamp: 2000, window: Window{Duration: "15m", Start: 600, End: 1500}, wantWindow: 15 * time.Minute, wantEnd: time.Unix(1500, 0)},
		{name: "the timestamp replaces the end", timestamp: 1000, window: Window{Duration: "5m"}, wantWindow: 5 * time.Minute, wantEnd: time.Unix(1000, 0)},
		{
			name: "start and end replace an invalid duration", timestamp: 1000,
			window: Window{Duration: "a while", Start: 780, End: 900}, wantWindow: 2 * time.Minute, wantEnd: time.Unix(900, 0),
		},
		{name: "without duration and start the values are of the moment", timestamp: 1000, window: Window{End: 900}, wantEnd: time.Unix(900, 0)},
		{name: "a negative duration is none", timestamp: 1000, window: Window{Duration: "-5m", End: 900}, wantEnd: time.Unix(900, 0)},
		{name: "an end before the start spans nothing", timestamp: 1000, window: Window{Start: 950, End: 900}, wantEnd: time.Unix(900, 0)},
		{name: "a span beyond reason is none", window: Window{Start: 1, End: lastSecond}, wantEnd: time.Unix(lastSecond, 0)},
		{name: "an end after the year 9999 is refused", window: Window{End: lastSecond + 1}, wantErr: ErrTooLate},
		{name: "an end that wraps is refused", window: Window{End: math.MaxInt64}, wantErr: ErrTooLate},
		{name: "a timestamp that wraps is refused", timestamp: math.MaxInt64, wantErr: ErrTooLate},
		{name: "a document without a date is refused", window: Window{Duration: "5m"}, wantErr: ErrUndated},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := exampleDocument()
			d.Timestamp, d.Window = tt.timestamp, tt.window
			got, err := d.Samples()
			if !errors.Is(err, tt.wantErr) {
				t.Fatalf("Samples() error = %v, want %v", err, tt.wantErr)
			}
			if err != nil {
				return
			}
			if got[0].Window != tt.wantWindow || !got[0].End.Equal(tt.wantEnd) {
				t.Errorf("window %v ends at %v, want %v at %v", got[0].Window, got[0].End, tt.wantWindow, tt.wantEnd)
			}
		})
	}
}

func TestFromSamples(t *testing.T) {
	made := time.Unix(1000, 500e6)
	samples := []load.Sample{
		{Node: "n2", Window: 5 * time.Minute, End: time.Unix(970, 0), Stats: load.Stats{load.CPU: known(0.25, 0.125), load.Memory: known(0.5, 0)}},
		{Node: "n1", Window: 5 * time.Minute, End: time.Unix(960, 0), Stats: load.Stats{load.CPU: known(0.75, math.NaN())}},
		{Node: "n3", Window: 0, End: time.Unix(980, 0), Stats: load.Stats{load.CPU: known(0.5, 0)}},
		{Node: "other window", Window: 10 * time.Minute, End: time.Unix(100, 0), Stats: load.Stats{load.CPU: known(0.1, 0)}},
		{Node: "nothing known", Window: 5 * time.Minute, End: time.Unix(100, 0)},
		{Node: "impossible", Window: 5 * time.Minute, End: time.Unix(100, 0), Stats: load.Stats{load.CPU: known(math.NaN(), 0), load.Memory: known(math.MaxFloat64, 0)}},
	}
	m := func(name, resourceType, operator, rollup string, value float64) Metric {
		return Metric{Name: name, Type: resourceType, Operator: operator, Rollup: rollup, Value: &value}
	}
	want := &Document{
		Timestamp: 1000,
		Window:    Window{Duration: "5m", Start: 660, End: 960}, // n1 ended first: 960 − 300
		Source:    "Prometheus",
		Data: Data{NodeMetricsMap: map[string]NodeMetrics{
			"n1": {Metrics: []Metric{m("cpu_utilization", "CPU", "AVG", "5m", 75)}},
			"n2": {Metrics: []Metric{
				m("cpu_utilization", "CPU", "AVG", "5m", 25), m("cpu_utilization", "CPU", "STD", "5m", 12.5),
				m("memory_utilization", "Memory", "AVG", "5m", 50), m("memory_utilization", "Memory", "STD", "5m", 0),
			}},
			"n3": {Metrics: []Metric{m("cpu_utilization", "CPU", "Latest", "0s", 50)}},
		}},
	}
	check.Equal(t, "FromSamples()", want, FromSamples("Prometheus", made, 5*time.Minute, samples))
}

func TestFromSamples_None(t *testing.T) {
	want := Window{Duration: "15m", Start: 1100, End: 2000} // 2000 − 900
	check.Equal(t, "window", want, FromSamples("x", time.Unix(2000, 0), 15*time.Minute, nil).Window)
}

func TestFromSamples_RoundTrip(t *testing.T) {
	end := time.Unix(1700000000, 0)
	want := []load.Sample{
		{Node: "moment", End: end, Stats: load.Stats{load.CPU: meanOnly(0.5), load.Memory: meanOnly(0.25)}},
		{Node: "window", Window: 10 * time.Minute, End: end, Stats: load.Stats{load.CPU: known(0.5, 0.125), load.Memory: known(1.5, 0)}},
	}
	content := check.Value(json.Marshal(FromSamples("x", end.Add(time.Second), 10*time.Minute, want)))(t)
	d := check.Value(Decode(bytes.NewReader(content), MaxBytes))(t)
	got := check.Value(d.Samples())(t)
	check.Equal(t, "samples after the wire", want, got, cmpopts.EquateNaNs())
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(example))
	f.Add([]byte(example[:200]))
	f.Add([]byte(`{}`))
	f.Add([]byte(`null`))
	f.Add(
		[]byte(
			`{"timestamp":1,"window":{"start":-9223372036854775808,"end":9223372036854775807},` +
				`"data":{"NodeMetricsMap":{"":{"metrics":null},"\u2028<&>":{"metrics":[{"value":-0},{"value":1e308}]}}}}`,
		),
	)
	f.Add([]byte(`{"data":{"NodeMetricsMap":{"n":{"metrics":[{"type":"CPU","operator":"AVG","value":null}]},"n":{"tags":null}}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		first, err := Decode(bytes.NewReader(text), MaxBytes)
		if err != nil {
			return
		}
		// Whatever can be read can be converted without a panic, to at most one sample per host.
		if samples, err := first.Samples(); err == nil && len(samples) > len(first.Data.NodeMetricsMap) {
			t.Errorf("%d samples of %d hosts", len(samples), len(first.Data.NodeMetricsMap))
		}
		once := check.Value(json.Marshal(first))(t)
		second, err := Decode(bytes.NewReader(once), MaxBytes)
		if err != nil {
			t.Fatalf("Decode() of what was encoded: %v", err)
		}
		check.Equal(t, "document after the round trip", first, second, cmpopts.EquateEmpty())
	})
}

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
		encoded := check.Value(json.Marshal(FromSamples(document.Source, end, window, first)))(t)
		again := check.Value(Decode(bytes.NewReader(encoded), MaxBytes))(t)
		second := check.Value(again.Samples())(t)
		// Percent and back is not exact.
		nearly := cmpopts.EquateApprox(1e-15, math.SmallestNonzeroFloat64)
		known := cmp.FilterValues(func(a, b load.Stat) bool { return !a.Known && !b.Known },
			cmp.Comparer(func(load.Stat, load.Stat) bool { return true }))
		check.Equal(t, "samples after one and two documents (want: one)", first, second, nearly, cmpopts.EquateNaNs(), known,
			cmp.Comparer(time.Time.Equal))
	})
}

package response

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/jsonstream"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
)

const (
	maxWarnings = 5
	// maxLabels bounds a map for reuse: clearing a map takes as long as its largest size ever.
	maxLabels = 64
)

// Series is one element of a vector or matrix. Labels is a map, or a struct with the needed labels.
type Series[Labels any] struct {
	Metric Labels `json:"metric"`
	// Value is that of a vector's element, Values are those of a matrix'.
	Value      Point           `json:"value"`
	Values     []Point         `json:"values"`
	Histogram  json.RawMessage `json:"histogram"`
	Histograms json.RawMessage `json:"histograms"`
}

// Point is a value and the time of its evaluation, in JSON [1435781451.781, "0.5"].
type Point struct {
	At    time.Time
	Value float64
}

// UnmarshalJSON accepts exactly a number and a string with a float. A general array of raw values costs four allocations a point.
func (p *Point) UnmarshalJSON(b []byte) error {
	number, quoted, ok := bytes.Cut(bytes.TrimSuffix(bytes.TrimPrefix(b, []byte("[")), []byte("]")), []byte(","))
	quoted = bytes.TrimSpace(quoted)
	if !ok || len(quoted) < 2 || quoted[0] != '"' || quoted[len(quoted)-1] != '"' {
		return fmt.Errorf("%.64q is not a sample value", b)
	}
	seconds, err := strconv.ParseFloat(string(bytes.TrimSpace(number)), 64)
	at, ok := promql.Time(seconds)
	if err != nil || !ok {
		return fmt.Errorf("%.64q has no time", b)
	}
	value, err := strconv.ParseFloat(string(quoted[1:len(quoted)-1]), 64)
	if err != nil {
		return fmt.Errorf("%.64q has no value", b)
	}
	p.At, p.Value = at, value
	return nil
}

// RefusedError is a query that Prometheus refused or could not evaluate, in Prometheus' words.
type RefusedError struct {
	Kind, Message string
	// tooMuch reports whether the whole message tells of a limit on series or samples. Message may be an excerpt.
	tooMuch bool
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("query refused (%s): %s", e.Kind, e.Message)
}

// limits are in the messages about queries that need more series, samples or memory than one query may.
var limits = []string{
	"too many samples",             // Prometheus, and other servers with its engine
	"violated (got ",               // Thanos
	"the query exceeded the ",      // Mimir
	"the query hit the ",           // Cortex
	"-search.maxSamplesPerQuery",   // VictoriaMetrics, as the next two
	"timeseries exceeds ",          // -search.maxUniqueTimeseries
	"enough memory for processing", // -search.maxMemoryPerQuery
}

// IsTooMuch reports whether a query failed because it needs more series or samples than the server or a Decode allows. The same
// query for fewer targets or namespaces may succeed.
func IsTooMuch(err error) bool {
	refused, ok := errors.AsType[*RefusedError](err)
	return source.IsTooLarge(err) || ok && refused.tooMuch
}

// Answer is what a response has beside its elements.
type Answer struct {
	Warnings []string
	Rejected source.Rejected
}

// PartialError says that a response lacks data, in the server's words.
type PartialError struct{ Words []string }

func (e *PartialError) Error() string {
	return "a part of the data is missing: " + text.FirstN(e.Words)
}

// harmless matches warnings that do not say that data is missing: Prometheus' annotations of an expression, and Thanos' warning
// that no store has data of a time.
var harmless = regexp.MustCompile(`^PromQL |^\d+ more (warning|info) annotations omitted$|No StoreAPIs matched for this query`)

// Partial returns a *PartialError if the response lacks data, such as of a store of Thanos.
func (a *Answer) Partial() error {
	missing := slices.DeleteFunc(slices.Clone(a.Warnings), harmless.MatchString)
	if len(missing) == 0 {
		return nil
	}
	return &PartialError{Words: missing}
}

// numbers checks all numbers of a response: this is the only place where numbers of a Prometheus enter.
type numbers struct {
	signed   bool
	rejected source.Rejected
}

// accept reports whether a value is finite, and not negative unless the query's values may be. It counts other values.
func (n *numbers) accept(v float64) bool {
	return n.signed && load.RejectionOf(v) == load.RejectedNegative || n.rejected.Accept(v)
}

// Elements decodes the elements of a result.
type Elements struct {
	resultType, name string
	decode           func(*jsonstream.Decoder, *numbers) error
}

// Vector passes each element of an instant vector with an accepted value to visit, valid only during the call. reset empties the
// last element's labels.
func Vector[Labels any](reset func(*Labels), visit func(*Series[Labels])) Elements {
	return Elements{resultType: "vector", name: "an instant vector", decode: each(reset, func(s *Series[Labels], n *numbers) error {
		if s.Value.At.IsZero() {
			return errors.New("the result holds a series without a value")
		}
		if n.accept(s.Value.Value) {
			visit(s)
		}
		return nil
	})}
}

// Matrix is Vector for a range query.
func Matrix[Labels any](reset func(*Labels), visit func(*Series[Labels])) Elements {
	return Elements{resultType: "matrix", name: "a matrix", decode: each(reset, func(s *Series[Labels], n *numbers) error {
		s.Values = slices.DeleteFunc(s.Values, func(p Point) bool { return !n.accept(p.Value) })
		visit(s)
		return nil
	})}
}

func each[Labels any](reset func(*Labels), visit func(*Series[Labels], *numbers) error) func(*jsonstream.Decoder, *numbers) error {
	var s Series[Labels]
	return func(dec *jsonstream.Decoder, n *numbers) error {
		reset(&s.Metric)
		s.Value, s.Values, s.Histogram, s.Histograms = Point{}, s.Values[:0], nil, nil
		if err := dec.Decode(&s); err != nil {
			return err
		}
		for _, histogram := range []json.RawMessage{s.Histogram, s.Histograms} {
			if histogram != nil && string(histogram) != "null" {
				return errors.New("the result holds native histograms, where floats are needed")
			}
		}
		return visit(&s, n)
	}
}

// ClearMap resets labels in a map.
func ClearMap(labels *map[string]string) {
	if len(*labels) > maxLabels {
		*labels = nil
	}
	clear(*labels)
}

// Decode reads a response of the Prometheus API, in memory for one series at a time. More than about as many series as the bounds
// allow are an error. After an error, decoded series must not be used.
func Decode(from io.Reader, bounds Bounds, elements Elements) (Answer, error) {
	dec := jsonstream.NewDecoder(from, bounds.Series)
	e := envelope{elements: elements, numbers: numbers{signed: bounds.Signed, rejected: source.Rejected{}}}
	var err error
	if err = e.decode(dec); err == nil {
		err = dec.End()
	}
	if err != nil {
		return Answer{}, fmt.Errorf("not a response of the Prometheus API: %w", err)
	}
	switch {
	case e.status == "error":
		return Answer{}, &e.err
	case e.status != "success":
		return Answer{}, fmt.Errorf("not a response of the Prometheus API: its status is %q", e.status)
	case !e.hasResult:
		return Answer{}, errors.New("not a response of the Prometheus API: it has no result")
	}
	return Answer{Warnings: e.warnings, Rejected: e.numbers.rejected}, nil
}

type envelope struct {
	elements  Elements
	numbers   numbers
	status    string
	err       RefusedError
	warnings  []string
	hasResult bool // tells an empty vector from none
}

func (e *envelope) decode(dec *jsonstream.Decoder) error {
	return dec.Object(func(key string) error {
		switch key {
		case "status":
			return dec.Decode(&e.status)
		case "errorType":
			return dec.Decode(&e.err.Kind)
		case "error":
			return dec.Decode(&e.err.Message)
		case "warnings", "infos":
			return dec.Array(func() error {
				var text string
				err := dec.Decode(&text)
				e.warn(text)
				return err
			})
		case "isPartial": // VictoriaMetrics says so instead of a warning
			var partial bool
			err := dec.Decode(&partial)
			if partial {
				e.warn("the response is partial")
			}
			return err
		case "data":
			return e.decodeData(dec)
		default:
			return dec.Skip()
		}
	})
}

// warn keeps the first warnings. A warning that data is missing replaces a harmless warning.
func (e *envelope) warn(warning string) {
	if len(e.warnings) == maxWarnings {
		i := slices.IndexFunc(e.warnings, harmless.MatchString)
		if i < 0 || harmless.MatchString(warning) {
			return
		}
		e.warnings = slices.Delete(e.warnings, i, i+1)
	}
	e.warnings = append(e.warnings, warning)
}

func (e *envelope) decodeData(dec *jsonstream.Decoder) error {
	var resultType string
	err := dec.Object(func(key string) error {
		switch key {
		case "resultType":
			if err := dec.Decode(&resultType); err != nil {
				return err
			}
			if resultType != e.elements.resultType {
				return fmt.Errorf("the result is a %q, where %s is needed", resultType, e.elements.name)
			}
			return nil
		case "result":
			// Servers write the type first. Otherwise the needed type is assumed.
			e.hasResult = true
			if err := dec.Array(func() error { return e.elements.decode(dec, &e.numbers) }); err != nil {
				return fmt.Errorf("%s is needed: %w", e.elements.name, err)
			}
			return nil
		default:
			return dec.Skip()
		}
	})
	if err == nil && e.hasResult && resultType == "" {
		return errors.New("the result has no type")
	}
	return err
}

// refusal decodes an error in the body of a response; nil if there is none. tooLong replaces a message beyond what was read.
func refusal(body []byte, tooLong string) *RefusedError {
	e := envelope{elements: Vector(ClearMap, func(*Series[map[string]string]) {})}
	if e.decode(jsonstream.NewDecoder(bytes.NewReader(body), int64(len(body)))) != nil && e.err.Message == "" {
		e.err.Message = tooLong
	}
	if e.err.Kind == "" {
		return nil
	}
	return &e.err
}

// Matcher finds the Nodes that series belong to. It does not change.
type Matcher struct {
	Nodes   []*corev1.Node
	Index   *source.NodeIndex
	labels  []string
	excerpt func(string) string
	// only has the dialect of each Node's values; empty where any dialect may measure the Node. It may be nil.
	only       []promql.Dialect
	capacities []podusage.Capacity
}

// NewMatcher returns a Matcher by labels, the preferred one first. excerpt cleans a server's text.
func NewMatcher(nodes []*corev1.Node, labels []string, excerpt func(string) string) *Matcher {
	m := &Matcher{
		Nodes: nodes, Index: source.NewNodeIndex(nodes), labels: labels, excerpt: excerpt,
		capacities: make([]podusage.Capacity, len(nodes)),
	}
	for i, node := range nodes {
		m.capacities[i] = podusage.CapacityOf(node)
	}
	return m
}

// Match returns the position of the series' Node, and the rank among the labels of the one that names it.
func (m *Matcher) Match(series map[string]string) (position, rank int, ok bool) {
	for rank, label := range m.labels {
		value, present := series[label]
		if !present {
			continue
		}
		if position, ok := m.Index.Match(value); ok {
			return position, rank, true
		}
	}
	return 0, 0, false
}

// DescribeAll writes a series with all of its labels.
func (m *Matcher) DescribeAll(series map[string]string) string {
	names := slices.Sorted(maps.Keys(series))
	names = slices.DeleteFunc(names, func(name string) bool { return name == model.MetricNameLabel })
	return m.write(m.excerpt(series[model.MetricNameLabel]), series, names)
}

func (m *Matcher) write(name string, series map[string]string, labels []string) string {
	var parts []string
	for _, label := range labels {
		if value, ok := series[label]; ok {
			parts = append(parts, fmt.Sprintf("%s=%q", m.excerpt(label), m.excerpt(value)))
		}
	}
	return text.Excerpt(name + "{" + strings.Join(parts, ", ") + "}")
}

// share returns a value of a node's query as a fraction of the node's capacity, and whether the capacity is known. Usage includes
// the system's: allocatable would be too little.
func (m *Matcher) share(position int, q *promql.Query, reading *promql.Reading, value float64) (float64, bool) {
	c := &m.capacities[position]
	switch amount := c.Amounts[q.Resource]; {
	case reading.OverCapacity && q.Resource == load.CPU:
		return 1000 * value / amount, amount > 0
	case reading.OverCapacity: // of memory that is not set aside for huge pages
		return value / amount, amount > 0
	case q.Custom(), q.Kind > promql.StdDev:
		return value, true
	case q.Kind == promql.StdDev:
		return c.Spread(q.Resource, value), true
	}
	return c.Of(q.Resource, value), true
}

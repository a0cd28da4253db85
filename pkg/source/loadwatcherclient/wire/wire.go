// Package wire is the JSON that load-watcher serves at GET /watcher, for clients and servers.
package wire

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	kjson "sigs.k8s.io/json"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/jsonstream"
)

// MaxBytes bounds a document, whatever the number of nodes: it allows for some 40,000 nodes with four metrics each.
const MaxBytes = 32 << 20

// Path is where the document is served, below the address of the service.
const Path = "watcher"

// ErrTooLarge is a document beyond the memory limit.
var ErrTooLarge = errors.New("too many hosts or metrics")

// Resource types. Others are known to load-watcher and not used here.
const (
	CPU    = "CPU"
	Memory = "Memory"
)

// Operators say how a value was computed. Unset is a mean.
const (
	Average           = "AVG"
	StandardDeviation = "STD"
	Latest            = "Latest"
	Unset             = ""
)

// Document is the load of all hosts, to be written by encoding/json. The order of fields, here and below, is that of keys.
type Document struct {
	// Timestamp is when the document was made, in seconds since 1970.
	Timestamp int64  `json:"timestamp"`
	Window    Window `json:"window"`
	Source    string `json:"source"`
	Data      Data   `json:"data"`
}

// Window is the span that the values were measured over.
type Window struct {
	Duration string `json:"duration"`
	// Start and End are in seconds since 1970.
	Start int64 `json:"start"`
	End   int64 `json:"end"`
}

// Data holds the metrics by host.
type Data struct {
	NodeMetricsMap map[string]NodeMetrics `json:"NodeMetricsMap"`
}

// NodeMetrics has the metrics of one host. Without a metric it is written as null.
type NodeMetrics struct {
	Metrics  []Metric `json:"metrics"`
	Tags     Tags     `json:"tags"`
	Metadata Metadata `json:"metadata"`
}

// Tags is always empty.
type Tags struct{}

// Metadata describes a host.
type Metadata struct {
	DataCenter string `json:"dataCenter"`
}

// Metric is one value.
type Metric struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Operator string `json:"operator"`
	Rollup   string `json:"rollup"`
	// Value is in percent of the host's capacity. Nil is no value, where zero is an idle host.
	Value *float64 `json:"value"`
}

const (
	// hostBytes and metricBytes are the memory of a host and of a metric.
	hostBytes   = 256
	metricBytes = 128
	otherKeys   = 64 // beside the hosts
)

// Decode reads one document up to the end of r.
//   - Keys are case-sensitive, unlike in encoding/json. Unknown keys are skipped; missing ones leave their fields zero.
//   - It fails with ErrTooLarge beyond about maxBytes of memory, with the error of r, or for invalid JSON.
//   - Beside NodeMetricsMap it reads no value of more than jsonstream.MaxValueBytes. It does not bound r.
func Decode(r io.Reader, maxBytes int64) (*Document, error) {
	buffered := bufio.NewReader(r)
	if _, err := buffered.Peek(1); errors.Is(err, io.EOF) {
		return nil, errors.New("empty")
	}
	dec := jsonstream.NewDecoder(buffered, maxBytes/hostBytes+otherKeys)
	d := &Document{}
	err := d.decode(dec, maxBytes)
	if err == nil {
		err = dec.End()
	}
	if failed, ok := errors.AsType[*jsonstream.ReadError](err); ok {
		return nil, failed.Unwrap()
	}
	if err != nil {
		return nil, fmt.Errorf("not load-watcher's JSON: %w", err)
	}
	return d, nil
}

func (d *Document) decode(dec *jsonstream.Decoder, maxBytes int64) error {
	return dec.Object(func(key string) error {
		switch key {
		case "timestamp":
			return dec.Decode(&d.Timestamp)
		case "window":
			return decodeValue(dec, &d.Window)
		case "source":
			return dec.Decode(&d.Source)
		case "data":
			return dec.Object(func(key string) error {
				if key != "NodeMetricsMap" {
					return dec.Skip()
				}
				return dec.Object(func(host string) error {
					var metrics NodeMetrics
					if err := decodeValue(dec, &metrics); err != nil {
						return err
					}
					if maxBytes -= int64(hostBytes + metricBytes*len(metrics.Metrics)); maxBytes < 0 {
						return ErrTooLarge
					}
					if d.Data.NodeMetricsMap == nil {
						d.Data.NodeMetricsMap = map[string]NodeMetrics{}
					}
					d.Data.NodeMetricsMap[host] = metrics
					return nil
				})
			})
		default:
			return dec.Skip()
		}
	})
}

func decodeValue(dec *jsonstream.Decoder, into any) error {
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return err
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(raw, into)
}

// ErrUndated is a document without the time of its values.
var ErrUndated = errors.New("neither window.end nor timestamp is set")

// lastSecond is the last of the year 9999. Far beyond it, a time.Time wraps into the past.
const lastSecond = 253402300799

// ErrTooLate is a document whose values are dated after the year 9999.
var ErrTooLate = errors.New("dated after the year 9999")

const percent = 100

// Samples returns one sample for each host with a mean of CPU or memory, sorted by host. Values that
// cannot have been measured are left out.
//   - Average is preferred to Latest, and Latest to Unset. A deviation without any of them does not count.
//   - Of several values of a type and operator, the highest counts.
//   - A sample of Latest alone is momentary, with a Window of 0. All others are over the document's window.
//   - Samples end at window.end, or else at the timestamp. It fails with ErrUndated without both,
//     and with ErrTooLate after the year 9999.
func (d *Document) Samples() ([]load.Sample, error) {
	end := d.Window.End
	if end <= 0 {
		end = d.Timestamp
	}
	if end <= 0 {
		return nil, ErrUndated
	}
	if end > lastSecond {
		return nil, fmt.Errorf("%w: window.end or timestamp is %d; want seconds since 1970", ErrTooLate, end)
	}
	window := d.Window.span()
	samples := make([]load.Sample, 0, len(d.Data.NodeMetricsMap))
	for _, host := range slices.Sorted(maps.Keys(d.Data.NodeMetricsMap)) {
		metrics := d.Data.NodeMetricsMap[host].Metrics
		cpu, cpuOfWindow := statOf(metrics, CPU)
		memory, memoryOfWindow := statOf(metrics, Memory)
		s := load.Sample{Node: host, End: time.Unix(end, 0), Stats: load.Stats{load.CPU: cpu, load.Memory: memory}}
		if !s.Stats.Known() {
			continue
		}
		if cpuOfWindow || memoryOfWindow {
			s.Window = window
		}
		samples = append(samples, s)
	}
	return samples, nil
}

// Rejected counts the values of CPU and memory that cannot have been measured.
func (d *Document) Rejected() (rejected map[load.Rejection]int) {
	for _, host := range d.Data.NodeMetricsMap {
		for i := range host.Metrics {
			if reason := host.Metrics[i].rejection(); reason != load.Accepted {
				if rejected == nil {
					rejected = map[load.Rejection]int{}
				}
				rejected[reason]++
			}
		}
	}
	return rejected
}

func (m *Metric) rejection() load.Rejection {
	if m.Value == nil || m.Type != CPU && m.Type != Memory {
		return load.Accepted
	}
	return load.RejectionOf(*m.Value)
}

// span returns the duration or, if it is invalid, the time from start to end; 0 if neither is positive.
func (w Window) span() time.Duration {
	if d, err := time.ParseDuration(w.Duration); err == nil && d > 0 {
		return d
	}
	const longest = int64(math.MaxInt64 / time.Second)
	if w.Start > 0 && w.End > w.Start && w.End-w.Start <= longest {
		return time.Duration(w.End-w.Start) * time.Second
	}
	return 0
}

// statOf returns the statistic of a resource type, and whether any part of it was measured over a window.
func statOf(metrics []Metric, resourceType string) (stat load.Stat, ofWindow bool) {
	highest := map[string]float64{} // by operator
	for i := range metrics {
		if m := &metrics[i]; m.Type == resourceType && m.Value != nil && m.rejection() == load.Accepted {
			if value, ok := highest[m.Operator]; !ok || *m.Value > value {
				highest[m.Operator] = *m.Value
			}
		}
	}
	deviation, deviates := highest[StandardDeviation]
	for _, operator := range []string{Average, Latest, Unset} {
		mean, ok := highest[operator]
		if !ok {
			continue
		}
		stat = load.Stat{Mean: mean / percent, StdDev: math.NaN(), Known: true}
		if deviates {
			stat.StdDev = deviation / percent
		}
		return stat, operator != Latest || deviates
	}
	return load.Stat{}, false
}

// FromSamples returns the document, made at a time, of the samples over window and of momentary ones, with operator Latest.
// It omits samples over other windows, and values that JSON cannot express.
//
// The format has one end for all nodes: the earliest End of the samples and made, so that no load passes for newer. Omit samples
// that are not fresh.
func FromSamples(source string, made time.Time, window time.Duration, samples []load.Sample) *Document {
	hosts := make(map[string]NodeMetrics, len(samples))
	end := made
	for i := range samples {
		s := &samples[i]
		if s.Window != window && s.Window != 0 {
			continue
		}
		before := hosts[s.Node].Metrics
		metrics := appendMetrics(before, CPU, s.Stats[load.CPU], s.Window)
		metrics = appendMetrics(metrics, Memory, s.Stats[load.Memory], s.Window)
		if len(metrics) == len(before) {
			continue
		}
		hosts[s.Node] = NodeMetrics{Metrics: metrics}
		if s.End.Before(end) {
			end = s.End
		}
	}
	return &Document{
		Timestamp: made.Unix(), Source: source, Data: Data{NodeMetricsMap: hosts},
		Window: Window{Duration: model.Duration(window).String(), Start: end.Add(-window).Unix(), End: end.Unix()},
	}
}

func appendMetrics(metrics []Metric, resourceType string, stat load.Stat, window time.Duration) []Metric {
	mean, deviation := stat.Mean*percent, stat.StdDev*percent
	if !stat.Known || !isFinite(mean) {
		return metrics
	}
	metric := func(operator string, value float64) Metric {
		return Metric{
			Name: strings.ToLower(resourceType) + "_utilization", Type: resourceType, Operator: operator, Value: &value,
			Rollup: model.Duration(window).String(),
		}
	}
	if window == 0 {
		return append(metrics, metric(Latest, mean)) // a moment has no deviation
	}
	metrics = append(metrics, metric(Average, mean))
	if isFinite(deviation) {
		metrics = append(metrics, metric(StandardDeviation, deviation))
	}
	return metrics
}

func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

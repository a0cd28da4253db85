// Package wire is the JSON that load-watcher serves at GET /watcher, for clients and servers.
package wire

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	kjson "sigs.k8s.io/json"

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
	// Source is the name of the metrics source that the service reads.
	Source string `json:"source"`
	Data   Data   `json:"data"`
}

// Window is the span that the values were measured over.
type Window struct {
	// Duration is as in "15m".
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
	Name string `json:"name"`
	// Type is CPU, Memory or another resource type.
	Type string `json:"type"`
	// Operator is Average, StandardDeviation, Latest or Unset.
	Operator string `json:"operator"`
	// Rollup is the span of this value, as in "15m".
	Rollup string `json:"rollup"`
	// Value is in percent of the host's capacity. Nil is no value, where zero is an idle host.
	Value *float64 `json:"value"`
}

const (
	// hostBytes and metricBytes are the memory of a host and of a metric.
	hostBytes   = 256
	metricBytes = 128
	// otherKeys is the maximum of keys beside the hosts.
	otherKeys = 64
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

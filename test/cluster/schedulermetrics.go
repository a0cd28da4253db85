package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics is what a program serves at /metrics, one sample a series. A histogram is there as its _bucket, _sum and _count.
type Metrics model.Vector

// SchedulerMetrics returns the scheduler's metrics.
func (c *Cluster) SchedulerMetrics(ctx context.Context) (Metrics, error) {
	text, err := c.AskScheduler(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	decoder := expfmt.SampleDecoder{
		Dec:  expfmt.NewDecoder(strings.NewReader(text), expfmt.NewFormat(expfmt.TypeTextPlain)),
		Opts: &expfmt.DecodeOptions{Timestamp: model.Now()},
	}
	var metrics Metrics
	for {
		var family model.Vector
		switch err := decoder.Decode(&family); {
		case errors.Is(err, io.EOF):
			return metrics, nil
		case err != nil:
			return nil, fmt.Errorf("reading the metrics of the scheduler: %w", err)
		}
		metrics = append(metrics, Metrics(family)...)
	}
}

// Select returns the series of a metric that have the given labels, which are names each followed by its value.
func (m Metrics) Select(name string, labels ...string) Metrics {
	var selected Metrics
	for _, sample := range m {
		matches := string(sample.Metric[model.MetricNameLabel]) == name
		for i := 0; matches && i < len(labels); i += 2 {
			matches = string(sample.Metric[model.LabelName(labels[i])]) == labels[i+1]
		}
		if matches {
			selected = append(selected, sample)
		}
	}
	return selected
}

// Sum adds up the series that Select returns; where there is none, the sum is 0.
func (m Metrics) Sum(name string, labels ...string) float64 {
	sum := 0.0
	for _, sample := range m.Select(name, labels...) {
		sum += float64(sample.Value)
	}
	return sum
}

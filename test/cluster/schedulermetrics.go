package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Metrics is what a program serves at /metrics, one sample per series. A histogram has the series _bucket, _sum and _count.
type Metrics model.Vector

func parseMetrics(text string) (Metrics, error) {
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

// WaitRefresh waits until a refresh that began after the call has read every load source of the scheduler. That is the second one
// to succeed from now on. What Prometheus measured at the time of the call, the scheduler then knows.
func (c *Cluster) WaitRefresh(ctx context.Context) error {
	refreshes := func(m Metrics) Metrics { return m.Select("plimsoll_refresh_total", "result", "Success") }
	before, err := c.Scheduler.Metrics(ctx)
	if err != nil {
		return err
	}
	return c.poll(ctx, "the scheduler to read its load sources", func(ctx context.Context) (string, error) {
		now, err := c.Scheduler.Metrics(ctx)
		if err != nil {
			return "", err
		}
		for _, sample := range refreshes(now) {
			source := string(sample.Metric["source"])
			if len(now.Select(workloadsMetric, "source", source)) > 0 {
				continue // a source of statistics is read every five minutes
			}
			if n := float64(sample.Value) - refreshes(before).Sum("plimsoll_refresh_total", "source", source); n < 2 {
				return fmt.Sprintf("%v refreshes of source %s have succeeded, must be 2", n, source), nil
			}
		}
		return "", nil
	})
}

const workloadsMetric = "plimsoll_workloads"

// Seen says what the scheduler and Prometheus know of the nodes, and which pods wait. A test that fails logs it.
func (c *Cluster) Seen(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var b strings.Builder
	if c.Scheduler.Process != nil {
		metrics, err := c.Scheduler.Metrics(ctx)
		fmt.Fprintf(&b, "the scheduler's metrics (error: %v):\n", err)
		for _, name := range []string{
			"plimsoll_load_nodes", "plimsoll_load_age_seconds", "plimsoll_refresh_total", "plimsoll_fallback_total", workloadsMetric,
		} {
			fmt.Fprintf(&b, "  %v\n", metrics.Select(name))
		}
	}
	for _, promQL := range []string{
		"sum by (node) (rate(node_cpu_usage_seconds_total[1m]))", "count_over_time(node_cpu_usage_seconds_total[1m])",
		"max_over_time(scrape_duration_seconds[1m])",
	} {
		values, err := c.Query(ctx, time.Now(), promQL)
		fmt.Fprintf(&b, "%s: %v (error: %v)\n", promQL, values, err)
	}
	pods, err := c.Client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName="})
	for i := 0; err == nil && i < min(len(pods.Items), 20); i++ {
		fmt.Fprintf(&b, "pod %s waits: %s\n", pods.Items[i].Name, unschedulable(&pods.Items[i]))
	}
	return b.String()
}

// Select returns the series of a metric that have all the given labels: name, value, name, value and so on.
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

// Sum returns the sum of the series that Select returns; without any, 0.
func (m Metrics) Sum(name string, labels ...string) float64 {
	sum := 0.0
	for _, sample := range m.Select(name, labels...) {
		sum += float64(sample.Value)
	}
	return sum
}

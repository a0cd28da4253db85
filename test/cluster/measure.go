package cluster

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Query runs an instant query at a moment, which yields one series per node. It returns the value of each node by its name.
func (c *Cluster) Query(ctx context.Context, at time.Time, promQL string) (map[string]float64, error) {
	client, err := api.NewClient(api.Config{Address: c.Endpoints.Prometheus})
	if err != nil {
		return nil, err
	}
	defer client.(api.CloseIdler).CloseIdleConnections()
	result, _, err := Ask(ctx, promv1.NewAPI(client), promQL, at)
	if err != nil {
		return nil, fmt.Errorf("querying Prometheus for %s: %w", promQL, err)
	}
	vector, ok := result.(model.Vector)
	if !ok {
		return nil, fmt.Errorf("querying Prometheus for %s: the result is a %s, must be a vector", promQL, result.Type())
	}
	values := map[string]float64{}
	for _, sample := range vector {
		values[string(sample.Metric["node"])] = float64(sample.Value)
	}
	return values, nil
}

// CPUUtilizationAt returns each node's mean CPU utilization over a window that ends then, as a fraction of capacity. Prometheus
// measures it. Nodes without samples are left out.
func (c *Cluster) CPUUtilizationAt(ctx context.Context, end time.Time, window time.Duration) (map[string]float64, error) {
	promQL := fmt.Sprintf("sum by (node) (rate(node_cpu_usage_seconds_total[%s]))", model.Duration(window))
	usage, err := c.Query(ctx, end, promQL)
	if err != nil {
		return nil, err
	}
	list, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	utilization := map[string]float64{}
	for _, n := range list.Items {
		if used, ok := usage[n.Name]; ok {
			utilization[n.Name] = used / n.Status.Capacity.Cpu().AsApproximateFloat64()
		}
	}
	return utilization, nil
}

// Expectation is the CPU utilization that Prometheus must measure.
type Expectation struct {
	// Window is the time over which Prometheus takes the mean. Prometheus dates a sample when it sends the request. On a busy machine
	// the response is some tenths of a second younger. So a mean over a few seconds is off by several percent.
	Window time.Duration
	// CPU holds the expected mean utilization by the node's name, as a fraction of the node's capacity.
	CPU map[string]float64
	// Tolerance is the allowed difference from CPU, as a fraction of the node's capacity.
	Tolerance float64
	// For is how long Prometheus must have measured it. With For equal to Window, the whole window has been as expected.
	For time.Duration
}

// WaitCPUUtilization waits until Prometheus measures what is expected, and returns what it measures.
func (c *Cluster) WaitCPUUtilization(ctx context.Context, e Expectation) (map[string]float64, error) {
	var got map[string]float64
	err := c.poll(ctx, "Prometheus to measure the load of the nodes", func(ctx context.Context) (string, error) {
		now := time.Now()
		for _, end := range []time.Time{now.Add(-e.For), now} {
			var err error
			if got, err = c.CPUUtilizationAt(ctx, end, e.Window); err != nil {
				return "", err
			}
			if missing := e.missing(got); missing != "" {
				return missing, nil
			}
		}
		return "", nil
	})
	return got, err
}

// WaitLatency waits until Prometheus measures HTTP latencies of nodes.
func (c *Cluster) WaitLatency(ctx context.Context, latency map[string]time.Duration) error {
	return c.poll(ctx, "Prometheus to measure the latency of the nodes", func(ctx context.Context) (string, error) {
		got, err := c.Query(ctx, time.Now(), "node_http_latency_seconds")
		if err != nil {
			return "", err
		}
		for _, node := range slices.Sorted(maps.Keys(latency)) {
			if value, ok := got[node]; !ok || value != latency[node].Seconds() {
				return fmt.Sprintf("%s has %v s, must have %v s", node, value, latency[node].Seconds()), nil
			}
		}
		return "", nil
	})
}

// missing names a node whose utilization is not as expected. It returns an empty string if all are.
func (e Expectation) missing(got map[string]float64) string {
	for _, node := range slices.Sorted(maps.Keys(e.CPU)) {
		value, ok := got[node]
		if !ok {
			return node + " is not measured"
		}
		if math.Abs(value-e.CPU[node]) > e.Tolerance {
			return fmt.Sprintf("%s is at %.1f %%, must be at %.1f %%", node, 100*value, 100*e.CPU[node])
		}
	}
	return ""
}

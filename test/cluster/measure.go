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
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned"
)

// Query runs an instant query that yields one series per node. It returns the value of each node by its name.
func (c *Cluster) Query(ctx context.Context, promQL string) (map[string]float64, error) {
	return c.queryAt(ctx, time.Now(), promQL)
}

func (c *Cluster) queryAt(ctx context.Context, at time.Time, promQL string) (map[string]float64, error) {
	client, err := api.NewClient(api.Config{Address: c.Endpoints.Prometheus})
	if err != nil {
		return nil, err
	}
	defer client.(api.CloseIdler).CloseIdleConnections()
	result, _, err := promv1.NewAPI(client).Query(ctx, promQL, at)
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

// CPUUtilization returns each node's mean CPU utilization over a window that ends now, as a fraction of capacity. Prometheus
// measures it. Nodes without samples are left out.
func (c *Cluster) CPUUtilization(ctx context.Context, window time.Duration) (map[string]float64, error) {
	return c.CPUUtilizationAt(ctx, time.Now(), window)
}

// CPUUtilizationAt returns what CPUUtilization would have returned at a moment in the past.
func (c *Cluster) CPUUtilizationAt(ctx context.Context, end time.Time, window time.Duration) (map[string]float64, error) {
	promQL := fmt.Sprintf("sum by (node) (rate(node_cpu_usage_seconds_total[%s]))", model.Duration(window))
	usage, err := c.queryAt(ctx, end, promQL)
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

// WaitCPUUtilizationAt waits until Prometheus has scraped everything before end, which may be in the future. It returns each node's
// mean CPU utilization over the window up to end. It waits until all the named nodes are measured.
func (c *Cluster) WaitCPUUtilizationAt(
	ctx context.Context, end time.Time, window time.Duration, nodes ...string,
) (map[string]float64, error) {
	// A sample of the time before end is stored a little after it.
	const ingestion = 2 * time.Second
	var got map[string]float64
	err := c.poll(ctx, "Prometheus to measure the load of the nodes", func(ctx context.Context) (missing string, err error) {
		if left := time.Until(end.Add(ingestion)); left > 0 {
			return fmt.Sprintf("the window ends in %s", left), nil
		}
		if got, err = c.CPUUtilizationAt(ctx, end, window); err != nil {
			return "", err
		}
		for _, node := range nodes {
			if _, ok := got[node]; !ok {
				return node + " is not measured", nil
			}
		}
		return "", nil
	})
	return got, err
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

// LateScrapes says which node lacks samples since a moment, or got one late; empty if none does. A rate over them may be off.
func (c *Cluster) LateScrapes(ctx context.Context, since time.Time) (string, error) {
	const late = 0.3
	seconds := int(time.Since(since).Seconds())
	samples, err := c.Query(ctx, fmt.Sprintf("count_over_time(node_cpu_usage_seconds_total[%ds])", seconds))
	if err != nil {
		return "", err
	}
	durations, err := c.Query(ctx, fmt.Sprintf(`max_over_time(scrape_duration_seconds{node!=""}[%ds])`, seconds))
	if err != nil {
		return "", err
	}
	for _, node := range slices.Sorted(maps.Keys(samples)) {
		if n, took := int(samples[node]), durations[node]; n < seconds-1 || took > late {
			return fmt.Sprintf("%s has %d samples in %d s, and a scrape took %.1f s", node, n, seconds, took), nil
		}
	}
	return "", nil
}

// LatencyQuery is the PromQL of the nodes' HTTP latencies, in seconds.
const LatencyQuery = "node_http_latency_seconds"

// WaitLatency waits until Prometheus measures HTTP latencies of nodes.
func (c *Cluster) WaitLatency(ctx context.Context, latency map[string]time.Duration) error {
	return c.poll(ctx, "Prometheus to measure the latency of the nodes", func(ctx context.Context) (string, error) {
		got, err := c.Query(ctx, LatencyQuery)
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

// WaitMetricsServer waits until metrics-server measures what is expected, over its own window.
func (c *Cluster) WaitMetricsServer(ctx context.Context, e Expectation) error {
	client, err := metricsclient.NewForConfig(c.admin)
	if err != nil {
		return err
	}
	var since time.Time
	return c.poll(ctx, "metrics-server to measure the load of the nodes", func(ctx context.Context) (string, error) {
		missing, err := c.missingInMetricsServer(ctx, client, e)
		switch {
		case err != nil || missing != "":
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		}
		if err == nil && missing == "" && time.Since(since) < e.For {
			missing = fmt.Sprintf("the load is as expected, but for less than %s", e.For)
		}
		return missing, err
	})
}

func (c *Cluster) missingInMetricsServer(ctx context.Context, client metricsclient.Interface, e Expectation) (string, error) {
	metrics, err := client.MetricsV1beta1().NodeMetricses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	nodes, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	got := map[string]float64{}
	for _, n := range nodes.Items {
		for _, m := range metrics.Items {
			if m.Name == n.Name {
				got[n.Name] = m.Usage.Cpu().AsApproximateFloat64() / n.Status.Capacity.Cpu().AsApproximateFloat64()
			}
		}
	}
	return e.missing(got), nil
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

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster/build"
)

// stock is the configuration of a stock scheduler.
const stock = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: {{ .Kubeconfig }}
leaderElection:
  leaderElect: false
`

// start builds the programs that are missing and starts a cluster that ends with the test.
func start(t *testing.T, o cluster.Options) *cluster.Cluster {
	t.Helper()
	builder, err := build.New(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	if err := builder.Build(t.Context(), o.Parts()...); err != nil {
		t.Fatal(err)
	}
	o.BinDir = builder.BinDir()
	began := time.Now()
	c, err := cluster.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the cluster started in %.1f s", time.Since(began).Seconds())
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestCluster(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	c := start(t, cluster.Options{Scheduler: stock})
	const window = 10 * time.Second
	// check fails the test if a step returned an error.
	check := func(step string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", step, err)
		}
	}

	check("creating nodes", c.CreateNodes(ctx,
		cluster.Node{Name: "steady", CPU: "8", Memory: "32Gi"},
		cluster.Node{Name: "swinging", CPU: "8", Memory: "32Gi"}))
	check("giving a steady load", c.SetLoad(ctx, "steady", cluster.Load{Usage: cluster.Usage{CPU: "4", Memory: "1Gi"}}))
	check("giving a swinging load", c.SetLoad(ctx, "swinging", cluster.Load{
		Usage: cluster.Usage{CPU: "4", Memory: "1Gi", CPUSwing: "2", SwingPeriod: window},
	}))
	// A swing of a quarter of the node moves the mean over ten seconds by up to a tenth of a quarter, which is 0.025.
	_, err := c.WaitCPUUtilization(ctx, cluster.Expectation{
		Window: window, CPU: map[string]float64{"steady": 0.5, "swinging": 0.5}, Tolerance: 0.03, For: 2 * time.Second,
	})
	check("measuring equal means", err)

	check("measuring the deviations", eventually(ctx, func() error {
		deviation, err := c.Query(ctx, "stddev_over_time(rate(node_cpu_usage_seconds_total[3s])[10s:1s]) / 8")
		if err != nil {
			return err
		}
		// A swing of 2 of 8 cores is 0.25. Of ten rates over three seconds, four cross an edge of the wave and deviate by about a
		// third of it: √((6·1 + 4/9)/10) = 0.8 of 0.25 is 0.2. A busy machine scatters rates over so few samples.
		if s := deviation["swinging"]; s < 0.15 || s > 0.3 {
			return fmt.Errorf("the swinging node deviates by %.3f, want about 0.2", s)
		}
		if s := deviation["steady"]; s > 0.05 {
			return fmt.Errorf("the steady node deviates by %.3f, want about 0", s)
		}
		return nil
	}))

	quarter := cluster.Expectation{Window: window, CPU: map[string]float64{"steady": 0.25}, Tolerance: 0.02}
	check("changing a load", c.SetLoad(ctx, "steady", cluster.Load{Usage: cluster.Usage{CPU: "2", Memory: "1Gi"}}))
	_, err = c.WaitCPUUtilization(ctx, quarter)
	check("measuring a load that changed", err)

	const host = cluster.Unmeasured + "host"
	kept := map[string]string{cluster.Kept: "true"}
	check(
		"creating a cordoned node",
		c.CreateNodes(ctx, cluster.Node{Name: host, CPU: "8", Memory: "32Gi", Labels: kept, Cordoned: true}),
	)
	check("creating a pod on it", c.CreatePods(ctx, cluster.Pod{
		ReplicaSet: "web-6d5f8c7b9d", Node: host, Labels: kept, Usage: cluster.Usage{CPU: "500m"},
	}))
	check("measuring a pod on an unmeasured node", eventually(ctx, func() error {
		usage, err := c.Query(ctx, `rate(pod_cpu_usage_seconds_total{namespace="default",pod=~"web-6d5f8c7b9d-.{5}"}[5s])`)
		if err == nil && math.Abs(usage[host]-0.5) > 0.05 {
			err = fmt.Errorf("the pod uses %v cores, want 0.5", usage[host])
		}
		return err
	}))
	utilization, err := c.CPUUtilization(ctx, window)
	check("measuring the nodes", err)
	if _, ok := utilization[host]; ok {
		t.Error("the unmeasured node is measured")
	}

	if err := c.Prometheus.Kill(); err != nil {
		t.Error(err)
	}
	if _, err := c.CPUUtilization(ctx, window); err == nil {
		t.Error("Prometheus responds after it was killed")
	}
	check("starting Prometheus again", c.Prometheus.Start(ctx))
	_, err = c.WaitCPUUtilization(ctx, quarter)
	check("measuring after Prometheus was started again", err)

	check("stopping the scheduler", c.Scheduler.Stop())
	labels := map[string]string{"app": "p"}
	check("creating a pod", c.CreatePods(ctx, cluster.Pod{Name: "p", Labels: labels}))
	check("starting the scheduler again", c.Scheduler.Start(ctx))
	_, err = c.WaitBound(ctx, labels, 1)
	check("placing a pod", err)
	left := func() (names []string) {
		nodes, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		check("listing nodes", err)
		pods, err := c.Client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		check("listing pods", err)
		for _, node := range nodes.Items {
			names = append(names, node.Name)
		}
		for _, pod := range pods.Items {
			names = append(names, pod.GenerateName)
		}
		return names
	}
	check("removing all except kept objects", c.Clear(ctx))
	if names := left(); !slices.Equal(names, []string{host, "web-6d5f8c7b9d-"}) {
		t.Errorf("Clear left %q, want the kept objects", names)
	}
	check("removing the kept objects", c.ClearKept(ctx))
	if names := left(); len(names) > 0 {
		t.Errorf("ClearKept left %q", names)
	}

	// The scheduler counts the pod a moment after it is bound.
	check("reading the scheduler's metrics", eventually(ctx, func() error {
		metrics, err := c.SchedulerMetrics(ctx)
		if err != nil {
			return err
		}
		if n := metrics.Sum("scheduler_schedule_attempts_total", "result", "scheduled", "profile", "default-scheduler"); n != 1 {
			return fmt.Errorf("the scheduler has placed %v pods, want 1", n)
		}
		return nil
	}))
	if err := c.Failed(); err != nil {
		t.Error(err)
	}

	cancel()
	check("stopping", c.Stop())
	if left, _ := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "*")); len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
	server, err := url.Parse(c.Endpoints.Prometheus)
	check("parsing the address of Prometheus", err)
	if conn, err := net.Dial("tcp", server.Host); err == nil {
		_ = conn.Close()
		t.Error("Prometheus still listens after the cluster was stopped")
	}
	if err := c.Prometheus.Start(t.Context()); err == nil {
		t.Error("Start() of a part returned no error after the cluster was stopped")
	}
}

func TestStart_FailureLeavesNoFiles(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	builder, err := build.New(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	o := cluster.Options{Scheduler: stock + "\nnonsense: true\n", BinDir: builder.BinDir()}
	if err := builder.Build(t.Context(), o.Parts()...); err != nil {
		t.Fatal(err)
	}
	_, err = cluster.Start(t.Context(), o)
	if err == nil {
		t.Fatal("Start() returned no error for an unknown field in the scheduler's configuration")
	}
	if !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("Start() = %v, want an error that names the field", err)
	}
	if left, _ := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "*")); len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
}

// eventually calls try until it returns no error. After five minutes it gives up: tests share machines.
func eventually(ctx context.Context, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}

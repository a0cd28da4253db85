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
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster/build"
	"github.com/plimsoll-scheduler/plimsoll/test/leak"
)

const stock = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: {{ .Kubeconfig }}
leaderElection:
  leaderElect: false
`

func start(t *testing.T, o cluster.Options) *cluster.Cluster {
	t.Helper()
	builder := check.Value(build.New(t.Context(), os.Stderr))(t)
	check.OK(t, builder.Build(t.Context(), o.Parts()...))
	o.BinDir = builder.BinDir()
	began := time.Now()
	c := check.Value(cluster.Start(t.Context(), o))(t)
	t.Logf("the cluster started in %.1f s", time.Since(began).Seconds())
	t.Cleanup(func() { check.OK(t, c.Stop()) })
	return c
}

func TestCluster(t *testing.T) {
	earlier := goleak.IgnoreCurrent()
	defer func() { check.OK(t, leak.Find(earlier)) }()
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	c := start(t, cluster.Options{Scheduler: stock})
	const window = 10 * time.Second
	check.OK(t, c.CreateNodes(ctx,
		cluster.Node{Name: "steady", CPU: "8", Memory: "32Gi"},
		cluster.Node{Name: "swinging", CPU: "8", Memory: "32Gi"}))
	check.OK(t, c.SetLoad(ctx, "steady", cluster.Load{Usage: cluster.Usage{CPU: "4", Memory: "1Gi"}}))
	check.OK(t, c.SetLoad(ctx, "swinging", cluster.Load{
		Usage: cluster.Usage{CPU: "4", Memory: "1Gi", CPUSwing: "2", SwingPeriod: window},
	}))
	// A swing of a quarter of the node moves the mean over ten seconds by up to a tenth of that: 0.025.
	check.Value(c.WaitCPUUtilization(ctx, cluster.Expectation{
		Window: window, CPU: map[string]float64{"steady": 0.5, "swinging": 0.5}, Tolerance: 0.03, For: 2 * time.Second,
	}))(t)

	check.OK(t, eventually(ctx, func() error {
		deviation, err := c.Query(ctx, "stddev_over_time(rate(node_cpu_usage_seconds_total[3s])[10s:1s]) / 8")
		if err != nil {
			return err
		}
		// A swing of 2 of 8 cores is 0.25. Of ten rates over three seconds, four cross an edge of the wave. They deviate by about a third
		// of it: √((6·1 + 4/9)/10) = 0.8 of 0.25 is 0.2. A busy machine scatters rates over so few samples.
		if s := deviation["swinging"]; s < 0.15 || s > 0.4 {
			return fmt.Errorf("the swinging node deviates by %.3f, want about 0.2", s)
		}
		if s := deviation["steady"]; s > deviation["swinging"]/2 {
			return fmt.Errorf("the steady node deviates by %.3f, want about 0", s)
		}
		return nil
	}))

	quarter := cluster.Expectation{Window: window, CPU: map[string]float64{"steady": 0.25}, Tolerance: 0.02}
	check.OK(t, c.SetLoad(ctx, "steady", cluster.Load{Usage: cluster.Usage{CPU: "2", Memory: "1Gi"}}))
	check.Value(c.WaitCPUUtilization(ctx, quarter))(t)

	const host = cluster.Unmeasured + "host"
	kept := map[string]string{cluster.Kept: "true"}
	check.OK(t, c.CreateNodes(ctx, cluster.Node{Name: host, CPU: "8", Memory: "32Gi", Labels: kept, Cordoned: true}))
	check.OK(t, c.CreatePods(ctx, cluster.Pod{
		ReplicaSet: "web-6d5f8c7b9d", Node: host, Labels: kept, Usage: cluster.Usage{CPU: "500m"},
	}))
	check.OK(t, eventually(ctx, func() error {
		usage, err := c.Query(ctx, `rate(pod_cpu_usage_seconds_total{namespace="default",pod=~"web-6d5f8c7b9d-.{5}"}[5s])`)
		if err == nil && math.Abs(usage[host]-0.5) > 0.05 {
			err = fmt.Errorf("the pod uses %v cores, want 0.5", usage[host])
		}
		return err
	}))
	utilization := check.Value(c.CPUUtilization(ctx, window))(t)
	if _, ok := utilization[host]; ok {
		t.Error("the unmeasured node is measured")
	}

	if err := c.Prometheus.Kill(); err != nil {
		t.Error(err)
	}
	if _, err := c.CPUUtilization(ctx, window); err == nil {
		t.Error("Prometheus responds after it was killed")
	}
	check.OK(t, c.Prometheus.Start(ctx))
	check.Value(c.WaitCPUUtilization(ctx, quarter))(t)

	check.OK(t, c.Scheduler.Stop())
	labels := map[string]string{"app": "p"}
	check.OK(t, c.CreatePods(ctx, cluster.Pod{Name: "p", Labels: labels}))
	check.OK(t, c.Scheduler.Start(ctx))
	check.Value(c.WaitBound(ctx, labels, 1))(t)
	left := func() (names []string) {
		nodes := check.Value(c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{}))(t)
		pods := check.Value(c.Client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{}))(t)
		for _, node := range nodes.Items {
			names = append(names, node.Name)
		}
		for _, pod := range pods.Items {
			names = append(names, pod.GenerateName)
		}
		return names
	}
	check.OK(t, c.Clear(ctx))
	if names := left(); !slices.Equal(names, []string{host, "web-6d5f8c7b9d-"}) {
		t.Errorf("Clear left %q, want the kept objects", names)
	}
	check.OK(t, c.ClearKept(ctx))
	if names := left(); len(names) > 0 {
		t.Errorf("ClearKept left %q", names)
	}

	// The scheduler counts the pod a moment after it is bound.
	check.OK(t, eventually(ctx, func() error {
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
	check.OK(t, c.Stop())
	if left, _ := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "*")); len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
	server := check.Value(url.Parse(c.Endpoints.Prometheus))(t)
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
	builder := check.Value(build.New(t.Context(), os.Stderr))(t)
	o := cluster.Options{Scheduler: stock + "\nnonsense: true\n", BinDir: builder.BinDir()}
	check.OK(t, builder.Build(t.Context(), o.Parts()...))
	_, err := cluster.Start(t.Context(), o)
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

func eventually(ctx context.Context, try func() error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 500*time.Millisecond, 5*time.Minute, true, func(context.Context) (bool, error) {
		last = try()
		return last == nil, nil
	})
	return errors.Join(err, last)
}

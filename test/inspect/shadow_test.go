package inspect

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/shadow"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

// startShadow runs the shadow of the stock profile's pods with the profile plimsoll, and returns its URL.
func (e *environment) startShadow(t *testing.T) string {
	t.Helper()
	port := check.Value(cluster.FreePort())(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	cmd := exec.CommandContext(ctx, filepath.Join(e.binDir, "kubectl-plimsoll"), "shadow", "run", "--config="+e.writeConfiguration(t, quickly(configuration)),
		"--profile=plimsoll", "--scheduler-name=default-scheduler", "--kubeconfig="+e.AdminKubeconfig, fmt.Sprintf("--listen-address=127.0.0.1:%d", port))
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	check.OK(t, cmd.Start())
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was ended
		if code := cmd.ProcessState.ExitCode(); code != 0 || t.Failed() {
			t.Errorf("the exit code is %d; the log:\n%s", code, log.String())
		}
	})
	return fmt.Sprintf("http://127.0.0.1:%d", port)
}

// get returns the body of a page, or an error if the status is not OK.
func get(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }() // it has been read
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	return string(body), err
}

// TestShadow has a node with much load and few requests, which the stock profile prefers. The other node is the reverse.
func TestShadow(t *testing.T) {
	shared.clear(t)
	for name, usage := range map[string]string{"hot": "7200m", "cold": "800m"} {
		check.OK(t, shared.CreateNodes(t.Context(), cluster.Node{Name: name, CPU: "8", Memory: "32Gi"}))
		check.OK(t, shared.SetLoad(t.Context(), name, cluster.Load{Usage: cluster.Usage{CPU: usage}}))
	}
	requests := func(cpu string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
	}
	check.OK(t, shared.CreatePods(t.Context(), cluster.Pod{Name: "reserved", Node: "cold", Resources: requests("5")}))
	check.Value(shared.WaitCPUUtilization(t.Context(), cluster.Expectation{
		Window: quick, CPU: map[string]float64{"hot": 0.9, "cold": 0.1}, Tolerance: 0.05}))(t)
	url := shared.startShadow(t)
	until := func(what string, holds func() (bool, error)) {
		t.Helper()
		if err := wait.PollUntilContextTimeout(t.Context(), time.Second, 5*time.Minute, true,
			func(context.Context) (bool, error) { return holds() }); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	until("ready", func() (bool, error) {
		_, err := get(t.Context(), url+"/readyz")
		return err == nil, nil
	})
	until("knows load", func() (bool, error) {
		metrics, err := get(t.Context(), url+"/metrics")
		return strings.Contains(metrics, `plimsoll_load_nodes{resource="cpu",source="Prometheus",state="Fresh"} 2`), err
	})
	const pods = 3
	app := map[string]string{"app": "judged"}
	for range pods {
		check.OK(t, shared.CreatePods(t.Context(), cluster.Pod{
			ReplicaSet: "web", Labels: app, Scheduler: corev1.DefaultSchedulerName, Resources: requests("500m")}))
	}
	bound := check.Value(shared.WaitBound(t.Context(), app, pods))(t)
	for pod, node := range bound {
		check.Require(t, fmt.Sprintf("pod %s is on: the stock profile must prefer hot for this test", pod), "hot", node)
	}
	var report shadow.Report
	until("counts a hot minute of each pod", func() (bool, error) {
		body, err := get(t.Context(), url+shadow.Path)
		if err != nil {
			return false, err
		}
		report = shadow.Report{}
		return report.Total.HotMinutesMade >= pods, json.Unmarshal([]byte(body), &report)
	})
	want := shadow.Counts{Pods: pods, Elsewhere: pods, HotMinutesMade: report.Total.HotMinutesMade}
	if len(report.Workloads) != 1 || report.Workloads[0] != (shadow.WorkloadCounts{Namespace: "default", Workload: "web", Counts: want}) {
		t.Errorf("the workloads are %+v, want web with %+v", report.Workloads, want)
	}
	if report.CoreShare <= 0 { // of wall time: how much it is depends on the machine
		t.Errorf("it spent %v of a core", report.CoreShare)
	}
	metrics := check.Value(get(t.Context(), url+"/metrics"))(t)
	for _, want := range []string{
		`plimsoll_shadow_decisions_total{namespace="default",outcome="Elsewhere",workload="web"} 3`,
		`plimsoll_shadow_hot_minutes_total{choice="Made",namespace="default",workload="web"} `, "plimsoll_shadow_work_seconds_total ",
	} {
		check.Contains(t, metrics, "\n"+want)
	}
	createService(t, "shadow", "shadow", 10269, expose(t, url))
	r := shared.run(t, "", "shadow", "--kubeconfig="+shared.AdminKubeconfig, "--service=shadow/shadow", "--since=2h").wants(t, 0)
	for _, want := range []string{"default web 3 3 0 0 ", "Plimsoll's choices have 100 % fewer predicted hot minutes: 0 in place of "} {
		check.Contains(t, strings.Join(strings.Fields(r.stdout), " "), want)
	}
	all := check.Value(shared.Client.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{}))(t)
	for i := range all.Items {
		for _, f := range all.Items[i].ManagedFields {
			if strings.Contains(f.Manager, "shadow") {
				t.Errorf("%s wrote to pod %s", f.Manager, all.Items[i].Name)
			}
		}
	}
}

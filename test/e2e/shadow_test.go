package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/shadow"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

// shadowValues install a shadow that packs nodes by load.
const shadowValues = `
config:
  profiles:
  - schedulerName: plimsoll
    plugins:
      score:
        disabled: [{name: NodeResourcesFit}, {name: NodeResourcesBalancedAllocation}]
        enabled: [{name: TargetLoadPacking, weight: 10}]
    pluginConfig:
    - name: TargetLoadPacking
      args: {window: 10s, refreshInterval: 1s, metricProvider: {type: Prometheus, address: '%s'}}
shadow: {enabled: true}
`

// TestShadow_OfChart runs the chart's shadow, with its own account, beside a scheduler of the stock profile. By load pods belong on
// worker-1, by requests on worker-2.
func TestShadow_OfChart(t *testing.T) {
	e := start(t, cluster.Options{AuditLog: true, Scheduler: header})
	workers := exampleWorkers()
	for _, i := range []int{0, 2} {
		workers[i].requests = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("6"), corev1.ResourceMemory: resource.MustParse("24Gi"),
		}
	}
	e.workers(workers...)
	check.Value(e.WaitCPUUtilization(e.ctx,
		cluster.Expectation{Window: 10 * time.Second, CPU: exampleLoad(), Tolerance: tolerance, For: 3 * refreshInterval}))(t)
	e.createNamespace(system, map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
	e.apply(render(t, system, fmt.Sprintf(shadowValues, e.Endpoints.Prometheus)))

	c, port := e.container(system, "plimsoll-shadow")
	c.Command = append(c.Command, fmt.Sprintf("--listen-address=127.0.0.1:%d", port))
	process := e.run(c)
	read := func(path string) []byte {
		resp := check.Value(http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, path)))(t)
		defer func() { _ = resp.Body.Close() }() // it has been read
		return check.Value(io.ReadAll(resp.Body))(t)
	}
	e.eventually("the shadow to know load", func() bool {
		return strings.Contains(string(read("/metrics")), `plimsoll_load_nodes{resource="cpu",source="Prometheus",state="Fresh"} 3`)
	})

	const pods = 3
	labels := map[string]string{"batch": "shadow"}
	for i := range pods {
		pod := tinyPod(fmt.Sprint("pod-", i), labels)
		pod.Scheduler = corev1.DefaultSchedulerName
		e.must(e.CreatePods(e.ctx, pod))
	}
	for pod, node := range check.Value(e.WaitBound(e.ctx, labels, pods))(t) {
		check.Equal(t, "the node of "+pod, "worker-2", node)
	}
	var report shadow.Report
	e.eventually("the shadow to evaluate all pods", func() bool {
		report = shadow.Report{}
		e.must(json.Unmarshal(read(shadow.Path), &report))
		return report.Total.Pods+report.Total.Skipped >= pods
	})
	check.Equal(t, "counts", shadow.Counts{Pods: pods, Elsewhere: pods}, report.Total)

	user := account(system, "plimsoll-shadow")
	for _, event := range check.Value(e.AuditEvents())(t) {
		if event.User.Username == user && !slices.Contains([]string{"get", "list", "watch"}, event.Verb) {
			t.Errorf("the shadow sent %s %s", event.Verb, event.RequestURI)
		}
	}
	e.wantNothingForbidden(user, process)
}

package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

// secret is a token that the log must not show. Prometheus does not ask for one.
const secret = "a-token-nobody-may-read"

const header = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: {{ .Kubeconfig }}
leaderElection:
  leaderElect: false
`

const profiles = header + `
profiles:
- schedulerName: score-only
  plugins:
    score:
      disabled: [{name: NodeResourcesFit}, {name: NodeResourcesBalancedAllocation}]
      enabled: [{name: TargetLoadPacking}]
  pluginConfig:
  - name: TargetLoadPacking
    args: &packing
      window: 10s
      refreshInterval: 1s
      driftTolerance: 1000 # load does not expire between slow refreshes
      metricProvider: {type: Prometheus, address: '{{ .Prometheus }}', token: ` + secret + `}
- schedulerName: multi-point
  plugins:
    multiPoint:
      enabled: [{name: TargetLoadPacking, weight: 2}]
    score:
      disabled: [{name: NodeResourcesFit}, {name: NodeResourcesBalancedAllocation}]
  pluginConfig:
  - name: TargetLoadPacking
    args: *packing
- schedulerName: multi-point-balancing
  plugins:
    multiPoint:
      enabled: [{name: LoadVariationRiskBalancing}]
    score:
      disabled: [{name: NodeResourcesFit}, {name: NodeResourcesBalancedAllocation}]
  pluginConfig:
  - name: LoadVariationRiskBalancing
    args: *packing
`

// TestProfiles runs the scheduler with several profiles. By load pods belong on worker-1 or worker-3, by requests on worker-2.
func TestProfiles(t *testing.T) {
	const window = 10 * time.Second
	e := start(t, cluster.Options{Scheduler: profiles, SchedulerArgs: []string{"-v=2"}})
	workers := exampleWorkers()
	for _, i := range []int{0, 2} {
		workers[i].requests = corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("6"),
			corev1.ResourceMemory: resource.MustParse("24Gi"),
		}
	}
	e.workers(workers...)
	e.waitLoad(window, exampleLoad(), tolerance)

	// Each part starts from the state that the previous one leaves.
	const pods = 3
	for _, tt := range []struct{ profile, node, why string }{
		{"score-only", "worker-1", "nearest below the target"},
		{"multi-point", "worker-1", "nearest below the target"},
		{"multi-point-balancing", "worker-3", "the least loaded"},
	} {
		t.Run(tt.profile+" profile places by load", func(t *testing.T) {
			e.in(t).wantAll(tt.profile, pods, tt.node, tt.why)
		})
	}
	t.Run("metrics count refreshes and decisions", func(t *testing.T) { e.in(t).wantMetrics(2*pods, pods) })
	t.Run("a source that hangs delays neither start nor placements nor shutdown", func(t *testing.T) { e.in(t).wantHangingSource() })
	t.Run("without the plugins it is the stock scheduler", func(t *testing.T) {
		e := e.in(t)
		e.must(e.Reconfigure(e.ctx, header))
		e.wantAll("default-scheduler", pods, "worker-2", "the one with the smallest requests")
		// The scheduler counts a pod a moment after it is bound.
		var metrics cluster.Metrics
		e.eventually("the metrics to show the placements", func() bool {
			metrics = check.Value(e.Scheduler.Metrics(e.ctx))(t)
			return metrics.Sum("scheduler_schedule_attempts_total", "result", "scheduled") == pods
		})
		for _, sample := range metrics {
			if name := string(sample.Metric["__name__"]); strings.HasPrefix(name, "plimsoll_") && name != "plimsoll_build_info" &&
				sample.Value != 0 {
				t.Errorf("%s is %v", sample.Metric, sample.Value)
			}
		}
	})
	t.Run("the log does not hold the token", func(t *testing.T) {
		e := e.in(t)
		log := check.Value(e.Scheduler.Log())(e.t)
		check.Lacks(t, log, secret)
		// At -v=2 the whole configuration is logged.
		if !strings.Contains(log, "token: <redacted>") && !strings.Contains(log, `"token":"<redacted>"`) {
			t.Error("the log does not show the configuration, so that the missing token proves nothing")
		}
	})
}

func (e environment) in(t *testing.T) environment { return environment{e.Cluster, t, t.Context()} }

// wantAll has a profile place pods and checks that all are on one node. why says why they belong there.
func (e environment) wantAll(profile string, pods int, node, why string) {
	e.t.Helper()
	labels := map[string]string{"batch": profile}
	for _, name := range numbered(profile, pods) {
		pod := tinyPod(name, labels)
		pod.Scheduler = profile
		e.must(e.CreatePods(e.ctx, pod))
	}
	bound := check.Value(e.WaitBound(e.ctx, labels, pods))(e.t)
	for pod, got := range bound {
		check.Equal(e.t, fmt.Sprintf("node of %s, %s", pod, why), node, got)
	}
}

// wantMetrics checks the metrics after a number of placements by each plugin, on three nodes whose load is known.
func (e environment) wantMetrics(packing, balancing int) {
	const anyNumber = -1
	metrics := check.Value(e.Scheduler.Metrics(e.ctx))(e.t)
	type want struct {
		name   string
		labels []string
		value  float64
	}
	wanted := []want{
		{"plimsoll_load_nodes", []string{"resource", "cpu", "state", "Fresh"}, 3},
		{"plimsoll_load_nodes", []string{"resource", "cpu", "state", "Expired"}, 0},
		{"plimsoll_load_nodes", []string{"resource", "cpu", "state", "Absent"}, 0},
		{"plimsoll_load_age_seconds", nil, anyNumber},
		{"plimsoll_refresh_total", []string{"result", "Success"}, anyNumber},
		// Before there were nodes, Prometheus had nothing to say.
		{"plimsoll_refresh_total", []string{"result", "Error"}, anyNumber},
		{"plimsoll_refresh_duration_seconds_count", nil, anyNumber},
		{"plimsoll_unmatched_series", nil, 0},
		{"plimsoll_decisions_total", []string{"plugin", "TargetLoadPacking"}, float64(packing)},
		{"plimsoll_decisions_total", []string{"plugin", "LoadVariationRiskBalancing"}, float64(balancing)},
	}
	for _, plugin := range []string{"TargetLoadPacking", "LoadVariationRiskBalancing"} {
		for _, reason := range []string{"Absent", "Expired", "StepAside"} {
			wanted = append(wanted, want{"plimsoll_fallback_total", []string{"plugin", plugin, "reason", reason}, 0})
		}
	}
	for _, reason := range []string{"NotANumber", "Negative", "AboveCapacity"} {
		wanted = append(wanted, want{"plimsoll_rejected_samples_total", []string{"reason", reason}, 0})
	}
	for _, w := range wanted {
		series := metrics.Select(w.name, w.labels...)
		if len(series) != 1 {
			e.t.Errorf("%s%v has %d series, want one", w.name, w.labels, len(series))
		} else if got := float64(series[0].Value); w.value != anyNumber && got != w.value {
			e.t.Errorf("%s%v = %v, want %v", w.name, w.labels, got, w.value)
		}
	}
	// The default maxAge.
	if age := metrics.Sum("plimsoll_load_age_seconds"); age < 0 || age > 300 {
		e.t.Errorf("the load is %.1f s old", age)
	}
	if n := metrics.Sum("plimsoll_refresh_total", "result", "Success"); n < 1 {
		e.t.Error("load was read without any successful refresh")
	}
	if n := metrics.Sum("plimsoll_refresh_duration_seconds_sum"); n <= 0 {
		e.t.Errorf("all refreshes together took %v s", n)
	}
}

// wantHangingSource runs the scheduler with a source that accepts connections and never responds.
func (e environment) wantHangingSource() {
	const pods = 3
	source, asked := hang(e.t)
	e.must(e.Reconfigure(e.ctx, header+fmt.Sprintf(`
profiles:
- schedulerName: hanging
  plugins:
    score:
      enabled: [{name: TargetLoadPacking}]
  pluginConfig:
  - name: TargetLoadPacking
    args:
      refreshInterval: 1s
      metricProvider: {type: Prometheus, address: '%s', timeout: 5m}
`, source)))
	e.eventually("a query of the source", asked)
	for _, path := range []string{"/healthz", "/readyz"} {
		check.Equal(e.t, fmt.Sprintf("while the source is asked, %s responds", path), "ok",
			check.Value(e.Scheduler.Get(e.ctx, path))(e.t))
	}
	e.wantAll("hanging", pods, "worker-2", "the one with the smallest requests")
	metrics := check.Value(e.Scheduler.Metrics(e.ctx))(e.t)
	check.Equal(e.t, "pods that the plugin skipped", pods,
		metrics.Sum("plimsoll_fallback_total", "plugin", "TargetLoadPacking", "reason", "StepAside"))
	check.Equal(e.t, "refreshes have ended, so the source does not hang", 0, metrics.Sum("plimsoll_refresh_total"))
	e.must(e.Scheduler.Stop())
}

// hang returns the address of a server that never responds, and whether it was asked. The server ends with the test.
func hang(t *testing.T) (address string, asked func() bool) {
	t.Helper()
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		<-r.Context().Done()
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL, func() bool { return requests.Load() > 0 }
}

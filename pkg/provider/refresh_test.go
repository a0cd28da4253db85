package provider

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider/sources"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// TestNewOnDemand_ReadsWhenAsked has a source that can be read, one that cannot be reached, and one that cannot be opened.
func TestNewOnDemand_ReadsWhenAsked(t *testing.T) {
	var requests atomic.Int32
	server := check.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		_, _ = w.Write([]byte(`{"items":[{"metadata":{"name":"n"},"timestamp":"2026-01-01T00:00:00Z","usage":{"cpu":"1"}}]}`))
	}))
	h := handle{informers: informers.NewSharedInformerFactory(fake.NewClientset(), 0), kubeConfig: &rest.Config{Host: server.URL}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Capacity: corev1.ResourceList{"cpu": resource.MustParse("4")}}}
	check.OK(t, h.informers.Core().V1().Nodes().Informer().GetIndexer().Add(node))
	p := NewOnDemand(clock.RealClock{}, metrics.NewKubeRegistry(), sources.Account{}, nil)
	timing := prometheusSpec()
	metricsServer, unreachable, unopened := timing, timing, timing
	metricsServer.MetricProvider = config.MetricProviderSpec{Type: config.KubernetesMetricsServer, Timeout: metav1.Duration{Duration: time.Minute}}
	unreachable.MetricProvider.Address = "http://127.0.0.1:1"
	unopened.MetricProvider.CAFile = "/absent/ca.crt"
	for _, spec := range []config.LoadSpec{metricsServer, unreachable, unopened, metricsServer} {
		check.Value(openModel(t, p, h, spec, podusage.ByRequests{}))(t)
	}
	publisher := check.Value(openStatistics(t, p, h, unreachable, statisticsSpec()))(t)
	check.Equal(t, "requests before Refresh", 0, requests.Load())
	for n := range int32(2) {
		p.Refresh(t.Context())
		if got := requests.Load(); got != n+1 {
			t.Errorf("%d requests after %d refreshes", got, n+1)
		}
	}
	all := p.Sources()
	check.Require(t, fmt.Sprintf("sources: %+v", all), 3, len(all))
	for i, want := range []struct{ label, err string }{
		{"KubernetesMetricsServer", ""}, {"Prometheus", "127.0.0.1:1"}, {"Prometheus (2)", "metricProvider.caFile"},
	} {
		s := all[i]
		failed := s.Err != nil
		if s.Label != want.label || failed != (want.err != "") || failed && !strings.Contains(s.Err.Error(), want.err) ||
			s.Source == nil {
			t.Errorf("source %d: %+v, want %+v", i, s, want)
		}
		if s.Took <= 0 {
			t.Errorf("source %d took %v", i, s.Took)
		}
	}
	statistics := p.AllStatistics()
	if len(statistics) != 1 || statistics[0].Label != "Prometheus pods" || statistics[0].Err == nil ||
		statistics[0].Publisher != publisher {
		t.Errorf("statistics %+v", statistics)
	}
}

// TestNewOnDemand_UnmeasuredErr has a Prometheus that refuses the memory of pods.
func TestNewOnDemand_UnmeasuredErr(t *testing.T) {
	server := check.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.FormValue("query"), "memory") {
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = w.Write([]byte(`{"status":"error","errorType":"execution","error":"too many samples"}`))
			return
		}
		_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"vector","result":[` +
			`{"metric":{"namespace":"shop","pod":"a"},"value":[1700000000,"1"]}]}}`))
	}))
	h := handle{informers: informers.NewSharedInformerFactory(fake.NewClientset(), 0), kubeConfig: &rest.Config{}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	check.OK(t, h.informers.Core().V1().Pods().Informer().GetIndexer().Add(pod))
	p := NewOnDemand(clock.RealClock{}, metrics.NewKubeRegistry(), sources.Account{}, nil)
	spec := prometheusSpec()
	spec.MetricProvider.Address = server.URL
	check.Value(openStatistics(t, p, h, spec, statisticsSpec()))(t)
	p.Refresh(t.Context())
	all := p.AllStatistics()
	if len(all) != 1 || all[0].Err != nil || all[0].UnmeasuredErr == nil || !strings.Contains(all[0].UnmeasuredErr.Error(), "too many samples") ||
		!all[0].FromPrometheus() {
		t.Errorf("statistics %+v, want the error of memory", all)
	}
}

func TestRefreshLoad_LeavesOutStatistics(t *testing.T) {
	var mu sync.Mutex
	reads := map[string]int{}
	server := check.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		reads[r.URL.Path]++
		_, _ = w.Write([]byte(`{"items":[]}`))
	}))
	h := handle{informers: informers.NewSharedInformerFactory(fake.NewClientset(), 0), kubeConfig: &rest.Config{Host: server.URL}}
	spec := prometheusSpec()
	spec.MetricProvider = config.MetricProviderSpec{Type: config.KubernetesMetricsServer, Timeout: metav1.Duration{Duration: time.Minute}}
	p := NewOnDemand(clock.RealClock{}, metrics.NewKubeRegistry(), sources.Account{}, nil)
	if _, err := openModel(t, p, h, spec, podusage.ByRequests{}); err != nil {
		t.Fatal(err)
	}
	if _, err := openStatistics(t, p, h, spec, statisticsSpec()); err != nil {
		t.Fatal(err)
	}
	h.informers.Start(t.Context().Done())
	h.informers.WaitForCacheSync(t.Context().Done())

	const nodes, pods = "/apis/metrics.k8s.io/v1beta1/nodes", "/apis/metrics.k8s.io/v1beta1/pods"
	p.Refresh(t.Context())
	check.Equal(t, "after Refresh", map[string]int{nodes: 1, pods: 1}, reads)
	p.RefreshLoad(t.Context())
	check.Equal(t, "after RefreshLoad", map[string]int{nodes: 2, pods: 1}, reads)
}

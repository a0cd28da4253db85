package provider

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider/sources"
)

func TestRefreshLoad_LeavesOutStatistics(t *testing.T) {
	var mu sync.Mutex
	reads := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		reads[r.URL.Path]++
		_, _ = w.Write([]byte(`{"items":[]}`))
	}))
	t.Cleanup(server.Close)
	h := handle{informers: informers.NewSharedInformerFactory(fake.NewClientset(), 0), kubeConfig: &rest.Config{Host: server.URL}}
	spec := prometheusSpec()
	spec.MetricProvider = config.MetricProviderSpec{
		Type: config.KubernetesMetricsServer, Timeout: metav1.Duration{Duration: time.Minute},
	}
	p := NewOnDemand(clock.RealClock{}, metrics.NewKubeRegistry(), sources.Account{})
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
	if diff := cmp.Diff(map[string]int{nodes: 1, pods: 1}, reads); diff != "" {
		t.Errorf("after Refresh (-want +got):\n%s", diff)
	}
	p.RefreshLoad(t.Context())
	if diff := cmp.Diff(map[string]int{nodes: 2, pods: 1}, reads); diff != "" {
		t.Errorf("after RefreshLoad (-want +got):\n%s", diff)
	}
}

package provider

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider/sources"
)

func statisticsSpec() config.StatisticsSpec {
	return config.StatisticsSpec{History: metav1.Duration{Duration: 24 * time.Hour}}
}

// TestPodSourcesAreShared varies every field of a LoadSpec. Two specs are one source of pod usage unless they differ in where or
// how pods are read.
func TestPodSourcesAreShared(t *testing.T) {
	throughService, metricsServer := prometheusSpec(), prometheusSpec()
	throughService.WatcherAddress = "http://load-watcher"
	metricsServer.MetricProvider.Type = config.KubernetesMetricsServer
	// Of a Prometheus its address and the way there matter. The others read metrics-server with the account of the scheduler.
	connection := []string{
		"WatcherAddress", "MetricProvider.Type", "MetricProvider.Address", "MetricProvider.Token", "MetricProvider.TokenFile",
		"MetricProvider.CAFile", "MetricProvider.InsecureSkipVerify",
	}
	for _, tc := range []struct {
		name string
		spec config.LoadSpec
		used []string
	}{
		{"Prometheus", prometheusSpec(), connection},
		{"a load-watcher service", throughService, nil},
		{"metrics-server", metricsServer, nil},
	} {
		for field, varied := range fieldVariations(t, tc.spec) {
			used := slices.Contains(tc.used, field)
			if shared := reflect.DeepEqual(podSourceSpecOf(tc.spec), podSourceSpecOf(varied)); shared == used {
				t.Errorf("%s: with another %s the source is shared: %v, want %v", tc.name, field, shared, !used)
			}
		}
	}
}

func TestStatisticsAreShared(t *testing.T) {
	p, h := New(clock.RealClock{}, metrics.NewKubeRegistry(), sources.Account{}), newHandle()
	first, err := openStatistics(t, p, h, prometheusSpec(), statisticsSpec())
	if err != nil {
		t.Fatal(err)
	}
	otherWindow, otherAddress, otherHistory, otherLabel := prometheusSpec(), prometheusSpec(), statisticsSpec(), statisticsSpec()
	otherWindow.Window.Duration = time.Minute
	otherAddress.MetricProvider.Address = "http://other"
	otherHistory.History.Duration = time.Hour
	otherLabel.WorkloadLabel = "app"
	for _, tc := range []struct {
		name       string
		spec       config.LoadSpec
		statistics config.StatisticsSpec
		shared     bool
	}{
		{"the same arguments", prometheusSpec(), statisticsSpec(), true},
		{"another window", otherWindow, statisticsSpec(), true},
		{"another address", otherAddress, statisticsSpec(), false},
		{"another history", prometheusSpec(), otherHistory, false},
		{"another label", prometheusSpec(), otherLabel, false},
	} {
		got, err := openStatistics(t, p, h, tc.spec, tc.statistics)
		if err != nil {
			t.Fatal(err)
		}
		if (got == first) != tc.shared {
			t.Errorf("%s: the statistics are shared: %v, want %v", tc.name, got == first, tc.shared)
		}
	}
	elsewhere, err := openStatistics(t, p, newHandle(), prometheusSpec(), statisticsSpec())
	if err != nil || elsewhere == first {
		t.Errorf("two clusters share the statistics of one (error %v)", err)
	}
}

// TestStatistics reads the usage of a pod from either source, at the first refresh.
func TestStatistics(t *testing.T) {
	const (
		pods  = `{"items":[{"metadata":{"namespace":"shop","name":"db-0"},"containers":[{"usage":{"cpu":"250m","memory":"1Gi"}}]}]}`
		usage = `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"namespace":"shop","pod":"db-0"},"value":[1700000000,"0.25"]}]}}`
		none  = `{"status":"success","data":{"resultType":"vector","result":[]}}`
	)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch query := r.FormValue("query"); {
		case r.URL.Path == "/apis/metrics.k8s.io/v1beta1/pods":
			_, _ = w.Write([]byte(pods))
		case strings.HasPrefix(query, "topk("):
			_, _ = w.Write([]byte(none))
		default:
			_, _ = w.Write([]byte(usage))
		}
	}))
	t.Cleanup(server.Close)
	for name, metricProvider := range map[string]config.MetricProviderSpec{
		"Prometheus":     {Type: config.Prometheus, Address: server.URL, Timeout: metav1.Duration{Duration: time.Minute}},
		"metrics-server": {Type: config.KubernetesMetricsServer},
	} {
		t.Run(name, func(t *testing.T) {
			controller := true
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "shop", Name: "db-0",
					OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", Name: "db", Controller: &controller}},
				},
				Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
					State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Now().Add(-time.Hour))}},
				}}},
			}
			h := handle{informers: informers.NewSharedInformerFactory(fake.NewClientset(pod), 0), kubeConfig: &rest.Config{Host: server.URL}}
			p := New(clock.RealClock{}, metrics.NewKubeRegistry(), sources.Account{})
			publisher, err := openStatistics(t, p, h, config.LoadSpec{MetricProvider: metricProvider}, statisticsSpec())
			if err != nil {
				t.Fatal(err)
			}
			if publisher.Latest().Len() != 0 {
				t.Error("statistics are known before the pods are")
			}
			h.informers.Start(t.Context().Done())
			workload := learned.Workload{Namespace: "shop", Name: "db"}
			for deadline := time.Now().Add(time.Minute); publisher.Latest().Len() == 0; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("no statistics within a minute")
				}
			}
			if m := publisher.Latest().Lookup(workload)[load.CPU]; m.Mean != 250 || m.PodTime != 5*time.Minute {
				t.Errorf("got %+v, want a mean of 250 over five minutes", m)
			}
		})
	}
}

func TestStatistics_UseAccountWithoutToken(t *testing.T) {
	p := New(clock.RealClock{}, metrics.NewKubeRegistry(), sources.Account{Dir: "/absent"})
	spec := prometheusSpec()
	spec.MetricProvider.Address = "https://prometheus"
	if _, err := openStatistics(t, p, newHandle(), spec, statisticsSpec()); err == nil ||
		!strings.Contains(err.Error(), "/absent/token") {
		t.Errorf("got error %v, want one that names the account's token", err)
	}
}

package provider

import (
	"fmt"
	"net/http"
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
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider/sources"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// handle is a framework with informers that are not started. All other calls panic.
type handle struct {
	minor.Handle
	informers  informers.SharedInformerFactory
	kubeConfig *rest.Config
}

func (h handle) SharedInformerFactory() informers.SharedInformerFactory { return h.informers }
func (h handle) KubeConfig() *rest.Config                               { return h.kubeConfig }

func newHandle() handle {
	return handle{informers: informers.NewSharedInformerFactory(fake.NewClientset(), 0), kubeConfig: &rest.Config{}}
}

func prometheusSpec() config.LoadSpec {
	return config.LoadSpec{
		MetricProvider: config.MetricProviderSpec{Type: config.Prometheus, Address: "http://prometheus", Timeout: metav1.Duration{Duration: time.Second}},
		Window:         metav1.Duration{Duration: 5 * time.Minute}, RefreshInterval: metav1.Duration{Duration: 30 * time.Second},
		MaxAge: metav1.Duration{Duration: 5 * time.Minute}, DriftTolerance: 10,
	}
}

// fieldVariations returns, by field path, the spec with that one field changed. Fields of structs and pointers to structs are
// varied one by one.
func fieldVariations(t *testing.T, spec config.LoadSpec) map[string]config.LoadSpec {
	variations := map[string]config.LoadSpec{}
	var vary func(path string, of func(*config.LoadSpec) reflect.Value)
	vary = func(path string, of func(*config.LoadSpec) reflect.Value) {
		varied := *spec.DeepCopy()
		v := of(&varied)
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				vary(path+"."+v.Type().Field(i).Name, func(s *config.LoadSpec) reflect.Value { return of(s).Field(i) })
			}
			return
		case reflect.Pointer:
			for i := range v.Type().Elem().NumField() {
				vary(path+"."+v.Type().Elem().Field(i).Name, func(s *config.LoadSpec) reflect.Value {
					if p := of(s); p.IsNil() {
						p.Set(reflect.New(p.Type().Elem()))
					}
					return of(s).Elem().Field(i)
				})
			}
			return
		case reflect.String:
			v.SetString(v.String() + "x")
		case reflect.Bool:
			v.SetBool(!v.Bool())
		case reflect.Int64:
			v.SetInt(v.Int() + 1)
		case reflect.Float64:
			v.SetFloat(v.Float() + 1)
		case reflect.Slice:
			v.Set(reflect.Append(v, reflect.ValueOf("x").Convert(v.Type().Elem())))
		default:
			t.Fatalf("%s is a %s: extend this test by how it varies", path, v.Kind())
		}
		variations[strings.TrimPrefix(path, ".")] = varied
	}
	vary("", func(s *config.LoadSpec) reflect.Value { return reflect.ValueOf(s).Elem() })
	return variations
}

// TestSourcesAreShared varies every field of a LoadSpec. Two specs are one source unless they differ in where or how load is read.
func TestSourcesAreShared(t *testing.T) {
	// How each reader uses the load of the source.
	usage := []string{"Window.Duration", "RefreshInterval.Duration", "MaxAge.Duration", "DriftTolerance", "MetricProvider.PodsFromMetricsServer"}
	// What not all sources use.
	nodeLabels, dialect := []string{"MetricProvider.NodeLabels", "MetricProvider.Selector"}, []string{"MetricProvider.Dialect"}
	queries := []string{"MetricProvider.Queries.CPU", "MetricProvider.Queries.Memory"}
	filters := []string{"MetricProvider.ClusterName", "MetricProvider.HostNameSuffix"}
	secondKey := []string{"MetricProvider.ApplicationKey", "MetricProvider.ApplicationKeyFile"}
	special := slices.Concat(nodeLabels, dialect, queries, filters, secondKey)
	throughService := prometheusSpec()
	throughService.WatcherAddress = "http://load-watcher"
	metricsServer := prometheusSpec()
	metricsServer.MetricProvider.Type = config.KubernetesMetricsServer
	signalFx, datadog := prometheusSpec(), prometheusSpec()
	signalFx.MetricProvider.Type, datadog.MetricProvider.Type = config.SignalFx, config.Datadog
	for _, tc := range []struct {
		name string
		spec config.LoadSpec
		// unused are the fields that may differ between readers of one source.
		unused []string
	}{
		{"Prometheus", prometheusSpec(), slices.Concat(usage, filters, secondKey)},
		{"a load-watcher service", throughService, slices.Concat(usage, special, []string{"MetricProvider.Type", "MetricProvider.Address"})},
		{"metrics-server", metricsServer, slices.Concat(usage, special)},
		{"SignalFx", signalFx, slices.Concat(usage, nodeLabels, dialect, secondKey)},
		{"Datadog", datadog, slices.Concat(usage, nodeLabels)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			unused := map[string]bool{}
			for _, field := range tc.unused {
				unused[field] = true
			}
			variations := fieldVariations(t, tc.spec)
			for field := range unused {
				if _, ok := variations[field]; !ok {
					t.Errorf("%s is no field of a LoadSpec", field)
				}
			}
			for field, varied := range variations {
				check.Equal(t, fmt.Sprintf("with another %s the source is shared", field), unused[field],
					reflect.DeepEqual(sourceSpecOf(tc.spec), sourceSpecOf(varied)))
			}
		})
	}
}

func openModel(t *testing.T, p *Provider, h minor.Handle, spec config.LoadSpec, e podusage.Estimator) (*estimate.Model, error) {
	t.Helper()
	reader, err := p.Open(t.Context(), h, reading.ForLoad(spec, e))
	if err != nil {
		return nil, err
	}
	return reader.Model(load.CPU), nil
}

func openStatistics(
	t *testing.T, p *Provider, h minor.Handle, spec config.LoadSpec, s config.StatisticsSpec,
) (*learned.Publisher, error) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.publisher(t.Context(), clusterOf(h), spec, s)
}

func TestPluginsOfOneSourceReadTheSameSnapshots(t *testing.T) {
	p, h := New(clock.RealClock{}, metrics.NewKubeRegistry(), sources.Account{}), newHandle()
	first := check.Value(openModel(t, p, h, prometheusSpec(), podusage.ByRequests{}))(t)
	otherWindow, otherAddress := prometheusSpec(), prometheusSpec()
	otherWindow.Window.Duration = time.Minute
	otherAddress.MetricProvider.Address = "http://other"
	for _, tc := range []struct {
		name   string
		spec   config.LoadSpec
		shared bool
	}{
		{"the same arguments", prometheusSpec(), true},
		{"another window", otherWindow, true},
		{"another address", otherAddress, false},
	} {
		model := check.Value(openModel(t, p, h, tc.spec, podusage.ByRequests{}))(t)
		check.Equal(t, tc.name+": the snapshots are shared", tc.shared, model.Snapshots() == first.Snapshots())
	}
	elsewhere := check.Value(openModel(t, p, newHandle(), prometheusSpec(), podusage.ByRequests{}))(t)
	if elsewhere.Snapshots() == first.Snapshots() {
		t.Error("two clusters share the snapshots of one")
	}
}

func TestReadersOfTheSameLoadShareAModel(t *testing.T) {
	p, h := New(clock.RealClock{}, metrics.NewKubeRegistry(), sources.Account{}), newHandle()
	first := check.Value(openModel(t, p, h, prometheusSpec(), podusage.ByRequests{}))(t)
	otherWindow, otherTrust := prometheusSpec(), prometheusSpec()
	otherWindow.Window.Duration = time.Minute
	otherTrust.DriftTolerance = 5
	for _, tc := range []struct {
		name      string
		spec      config.LoadSpec
		estimator podusage.Estimator
		shared    bool
	}{
		{"the same arguments", prometheusSpec(), podusage.ByRequests{}, true},
		{"another estimator", prometheusSpec(), podusage.BySpec{Multiplier: 1.5}, false},
		{"another window", otherWindow, podusage.ByRequests{}, false},
		{"another trust", otherTrust, podusage.ByRequests{}, false},
	} {
		model := check.Value(openModel(t, p, h, tc.spec, tc.estimator))(t)
		check.Equal(t, tc.name+": the model is shared", tc.shared, model == first)
	}
}

func TestOpen_Quantile(t *testing.T) {
	p, h := New(clock.RealClock{}, metrics.NewKubeRegistry(), sources.Account{}), newHandle()
	mean := check.Value(openModel(t, p, h, prometheusSpec(), podusage.ByRequests{}))(t)
	quantile := func(fraction float64) *estimate.Model {
		request := reading.ForLoad(prometheusSpec(), podusage.ByRequests{})
		request.Fraction = fraction
		reader := check.Value(p.Open(t.Context(), h, request))(t)
		model := reader.Model(load.CPU)
		if got := model.Config(); got.Fraction != fraction || got.Window != prometheusSpec().Window.Duration {
			t.Errorf("a model of %+v, want the quantile %v", got, fraction)
		}
		if model.Snapshots() != mean.Snapshots() {
			t.Errorf("the quantile %v has a source of its own", fraction)
		}
		return model
	}
	p95, maximum := quantile(0.95), quantile(1)
	if p95 == mean || p95 == maximum || p95 != quantile(0.95) {
		t.Error("models are shared by other than the quantile")
	}
}

func TestProvider_UsesAccountWithoutToken(t *testing.T) {
	p := New(clock.RealClock{}, metrics.NewKubeRegistry(), sources.Account{Dir: "/absent"})
	_, err := openModel(t, p, newHandle(), config.LoadSpec{WatcherAddress: "https://load-watcher"}, podusage.ByRequests{})
	check.Error(t, err, "/absent/token")
}

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
		"MetricProvider.CAFile", "MetricProvider.HTTPConfigFile", "MetricProvider.InsecureSkipVerify",
		"MetricProvider.PodsFromMetricsServer",
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
	first := check.Value(openStatistics(t, p, h, prometheusSpec(), statisticsSpec()))(t)
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
		got := check.Value(openStatistics(t, p, h, tc.spec, tc.statistics))(t)
		check.Equal(t, tc.name+": the statistics are shared", tc.shared, got == first)
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
	server := check.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch query := r.FormValue("query"); {
		case r.URL.Path == "/apis/metrics.k8s.io/v1beta1/pods":
			_, _ = w.Write([]byte(pods))
		case strings.HasPrefix(query, "topk("):
			_, _ = w.Write([]byte(none))
		default:
			_, _ = w.Write([]byte(usage))
		}
	}))
	for name, metricProvider := range map[string]config.MetricProviderSpec{
		"Prometheus":     {Type: config.Prometheus, Address: server.URL, Timeout: metav1.Duration{Duration: time.Minute}},
		"metrics-server": {Type: config.KubernetesMetricsServer},
	} {
		t.Run(name, func(t *testing.T) {
			controller := true
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0", OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", Name: "db", Controller: &controller}}},
				Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
					State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Now().Add(-time.Hour))}},
				}}},
			}
			h := handle{informers: informers.NewSharedInformerFactory(fake.NewClientset(pod), 0), kubeConfig: &rest.Config{Host: server.URL}}
			p := New(clock.RealClock{}, metrics.NewKubeRegistry(), sources.Account{})
			publisher := check.Value(openStatistics(t, p, h, config.LoadSpec{MetricProvider: metricProvider}, statisticsSpec()))(t)
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
	_, err := openStatistics(t, p, newHandle(), spec, statisticsSpec())
	check.Error(t, err, "/absent/token")
}

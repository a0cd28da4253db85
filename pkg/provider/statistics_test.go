package provider

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
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

func TestStatistics_File(t *testing.T) {
	directory := t.TempDir()
	file, otherFile := filepath.Join(directory, "a"), filepath.Join(directory, "b")
	if err := os.WriteFile(otherFile, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	in := func(file string) config.StatisticsSpec {
		s := statisticsSpec()
		s.StatisticsFile, s.WorkloadLabel = file, "app"
		return s
	}
	metricsServer, otherHistory := prometheusSpec(), in(file)
	metricsServer.MetricProvider = config.MetricProviderSpec{Type: config.KubernetesMetricsServer}
	otherHistory.History.Duration = time.Hour
	const first = "Prometheus at http://prometheus with history 24h0m0s and workloadLabel app"
	for name, tt := range map[string]struct {
		spec config.LoadSpec
		s    config.StatisticsSpec
		want []string // none: no error
	}{
		"the same arguments":  {prometheusSpec(), in(file), nil},
		"another source":      {metricsServer, in(file), []string{file, "those of " + first, "those of KubernetesMetricsServer with history 24h0m0s"}},
		"another history":     {prometheusSpec(), otherHistory, []string{file, "those of " + first, "with history 1h0m0s", "another file"}},
		"another file":        {prometheusSpec(), in(otherFile), []string{file, otherFile, first, "write the same"}},
		"no file":             {prometheusSpec(), in(""), []string{file, `""`, first}},
		"its own file":        {metricsServer, in(otherFile), nil},
		"a missing directory": {metricsServer, in("/absent/a"), []string{"/absent/a", "no such file", "mount a volume at /absent"}},
		"a file as directory": {metricsServer, in(otherFile + "/a"), []string{otherFile + "/a", "not a directory"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, h := New(clock.RealClock{}, metrics.NewKubeRegistry(), sources.Account{}), newHandle()
			if _, err := openStatistics(t, p, h, prometheusSpec(), in(file)); err != nil {
				t.Fatal(err)
			}
			if c := p.statistics[0].watcher; c.File != file || c.Origin != first {
				t.Errorf("%q keeps statistics of %q, want %q and %q", c.File, c.Origin, file, first)
			}
			_, err := openStatistics(t, p, h, tt.spec, tt.s)
			checked := CheckStatistics([]reading.Request{
				{Spec: prometheusSpec(), Peak: &config.PeakSpec{StatisticsSpec: in(file)}}, {Spec: tt.spec},
				{Spec: tt.spec, Peak: &config.PeakSpec{StatisticsSpec: tt.s}},
			})
			if isRead := strings.Contains(name, "directory"); !isRead && fmt.Sprint(checked) != fmt.Sprint(err) || isRead && checked != nil {
				t.Errorf("without a cluster: error %v, want %v", checked, err)
			}
			if (err != nil) != (len(tt.want) > 0) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			for _, part := range append(tt.want, "statisticsFile: ") {
				if err != nil && !strings.Contains(err.Error(), part) {
					t.Errorf("error %v, want one with %q", err, part)
				}
			}
		})
	}
	t.Run("on demand", func(t *testing.T) {
		p, h := NewOnDemand(clock.RealClock{}, metrics.NewKubeRegistry(), sources.Account{}), newHandle()
		for _, s := range []config.StatisticsSpec{in("/absent/a"), in(file)} {
			if _, err := openStatistics(t, p, h, metricsServer, s); err != nil {
				t.Fatal(err)
			}
		}
		if len(p.statistics) != 1 || p.statistics[0].watcher.File != "" {
			t.Errorf("%d statistics, the first kept in %q; want one, in no file", len(p.statistics), p.statistics[0].watcher.File)
		}
	})
}

func TestStatistics_DirectoryThatCannotBeRead(t *testing.T) {
	release, ended := make(chan struct{}), make(chan struct{})
	hangs := func(string) (os.FileInfo, error) {
		defer close(ended)
		<-release
		return nil, os.ErrInvalid
	}
	failsWith := func(err error) func(string) (os.FileInfo, error) {
		return func(path string) (os.FileInfo, error) { return nil, &os.PathError{Op: "stat", Path: path, Err: err} }
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tt := range map[string]struct {
		ctx  context.Context
		stat func(string) (os.FileInfo, error)
		// want is in the error, or in the log if the scheduler starts.
		want   string
		starts bool
	}{
		"a hanging mount":      {canceled, hangs, "the file system has not responded", true},
		"an I/O error":         {t.Context(), failsWith(syscall.EIO), "input/output error", true},
		"a stale handle":       {t.Context(), failsWith(syscall.ESTALE), "stale", true},
		"no directory":         {t.Context(), failsWith(syscall.ENOENT), "no such file", false},
		"a file above it":      {t.Context(), failsWith(syscall.ENOTDIR), "not a directory", false},
		"a directory, in time": {t.Context(), os.Stat, "", true},
	} {
		logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
		err := checkDirectory(klog.NewContext(tt.ctx, logger), filepath.Join(t.TempDir(), "a"), tt.stat)
		said := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
		if err != nil {
			said = err.Error()
		}
		if (err == nil) != tt.starts || !strings.Contains(said, tt.want) || (said == "") != (tt.want == "") {
			t.Errorf("%s: starts: %v, said %q; want %v and %q", name, err == nil, said, tt.starts, tt.want)
		}
	}
	close(release)
	<-ended
}

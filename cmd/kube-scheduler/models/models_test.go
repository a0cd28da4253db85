package models

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/cmd/internal/loadsource"
)

// handle is a framework with informers that are not started. What else is asked of it panics.
type handle struct {
	fwk.Handle
	informers informers.SharedInformerFactory
}

func (h handle) SharedInformerFactory() informers.SharedInformerFactory { return h.informers }
func (h handle) KubeConfig() *rest.Config                               { return &rest.Config{} }

func TestOneSourceIsReadOnceForAllPlugins(t *testing.T) {
	models := New(clock.RealClock{}, metrics.NewKubeRegistry())
	h := handle{informers: informers.NewSharedInformerFactory(fake.NewClientset(), 0)}
	duration := func(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }
	spec := config.LoadSpec{
		MetricProvider:  config.MetricProviderSpec{Type: config.Prometheus, Address: "http://prometheus", Timeout: duration(time.Second)},
		Window:          duration(5 * time.Minute),
		RefreshInterval: duration(30 * time.Second),
		MaxAge:          duration(5 * time.Minute),
		DriftTolerance:  10,
	}
	first, err := models.Model(t.Context(), h, spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(*config.LoadSpec)
		shared bool
	}{
		"the same arguments": {func(*config.LoadSpec) {}, true},
		"another window":     {func(s *config.LoadSpec) { s.Window = duration(time.Minute) }, true},
		"another age":        {func(s *config.LoadSpec) { s.MaxAge = duration(time.Minute) }, true},
		"another address":    {func(s *config.LoadSpec) { s.MetricProvider.Address = "http://other" }, false},
	} {
		other := spec
		tc.change(&other)
		model, err := models.Model(t.Context(), h, other, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := model.Updates() == first.Updates(); got != tc.shared {
			t.Errorf("%s: the source is shared: %v, want %v", name, got, tc.shared)
		}
	}
}

func TestASourceWithoutATokenIsReadAsTheAccount(t *testing.T) {
	models := New(clock.RealClock{}, metrics.NewKubeRegistry())
	models.Account = loadsource.Account{Dir: "/absent"}
	h := handle{informers: informers.NewSharedInformerFactory(fake.NewClientset(), 0)}
	_, err := models.Model(t.Context(), h, config.LoadSpec{WatcherAddress: "https://load-watcher"}, nil)
	if err == nil || !strings.Contains(err.Error(), "/absent/token") {
		t.Errorf("the account is not asked for its token: %v", err)
	}
}

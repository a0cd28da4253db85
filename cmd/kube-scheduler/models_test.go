package main

import (
	"strings"
	"testing"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/cmd/internal/loadsource"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// handle is that of a framework whose cluster is not there.
type handle struct{ fwk.Handle }

func (handle) KubeConfig() *rest.Config { return &rest.Config{Host: "https://127.0.0.1:1"} }
func (h handle) SharedInformerFactory() informers.SharedInformerFactory {
	return informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(h.KubeConfig()), 0)
}

func TestASourceWithoutATokenIsReadAsTheAccount(t *testing.T) {
	m := newModels(clock.RealClock{}, metrics.NewKubeRegistry(), loadsource.Account{Dir: "/absent"})
	spec := config.LoadSpec{WatcherAddress: "https://load-watcher"}
	_, err := m.Model(t.Context(), handle{}, spec, load.Usage(nil))
	if err == nil || !strings.Contains(err.Error(), "/absent/token") {
		t.Errorf("the account is not asked for its token: %v", err)
	}
}

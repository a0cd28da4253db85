// kube-scheduler is the stock Kubernetes scheduler with Plimsoll's plugins compiled in.
package main

import (
	"fmt"
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics on /metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info on /metrics
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/provider"
)

// registry is the one behind the scheduler's own /metrics.
type registry struct{}

func (registry) MustRegister(c ...metrics.Registerable) { legacyregistry.MustRegister(c...) }
func (registry) CustomMustRegister(c ...metrics.StableCollector) {
	legacyregistry.CustomMustRegister(c...)
}

func main() {
	account, err := provider.AccountOfEnvironment()
	if err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		os.Exit(1)
	}
	os.Exit(cli.Run(newCommand(clock.RealClock{}, registry{}, account)))
}

// load-watcher serves the load of nodes to several schedulers, by load-watcher's HTTP API.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics on /metrics
)

// version is set by the linker.
var version string

// registry is the one behind /metrics.
type registry struct{}

func (registry) MustRegister(c ...metrics.Registerable) { legacyregistry.MustRegister(c...) }
func (registry) CustomMustRegister(c ...metrics.StableCollector) {
	legacyregistry.CustomMustRegister(c...)
}

func main() {
	os.Exit(cli.Run(newCommand(telemetry{Registry: registry{}, handler: legacyregistry.Handler()})))
}

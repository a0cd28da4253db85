// load-watcher serves the load of nodes to several schedulers, by load-watcher's HTTP API.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/restclient" // client metrics on /metrics

	"github.com/plimsoll-scheduler/plimsoll/internal/program"
	"github.com/plimsoll-scheduler/plimsoll/pkg/loadwatcher"
)

// version is set by the linker.
var version string

func main() {
	telemetry := loadwatcher.Telemetry{Registry: program.Registry{}, Handler: legacyregistry.Handler()}
	os.Exit(cli.Run(loadwatcher.NewCommand(program.Version(version), telemetry)))
}

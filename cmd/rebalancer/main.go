// rebalancer moves pods off hot nodes, by the scheduler's own code.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/restclient" // client metrics on /metrics
	"k8s.io/utils/clock"

	_ "github.com/plimsoll-scheduler/plimsoll/apis/config/scheme" // registers the types of the plugins' arguments
	"github.com/plimsoll-scheduler/plimsoll/internal/program"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/run"
)

// version is set by the linker.
var version string

func main() {
	registry := program.Registry{}
	command := run.NewCommand(program.Version(version), clock.RealClock{}, registry.MustRegister, legacyregistry.Handler())
	os.Exit(cli.Run(command))
}

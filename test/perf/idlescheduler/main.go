// idlescheduler is the stock Kubernetes scheduler with plugins that do nothing at the extension points of the load plugins. A
// profile with them costs what the framework costs for calling so many plugins. The plugin Burden plants a known cost.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics on /metrics
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	var options []app.Option
	for name, factory := range registry() {
		options = append(options, app.WithPlugin(name, factory))
	}
	os.Exit(cli.Run(app.NewSchedulerCommand(options...)))
}

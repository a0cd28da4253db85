// Package loadwatcher is the load-watcher program: it reads the load of nodes and serves it by load-watcher's HTTP API, which
// plugins of other schedulers read too.
package loadwatcher

import (
	"context"
	"fmt"
	"net"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint/finding"
)

// NewCommand returns the command of the program in a version.
func NewCommand(version string, t Telemetry) *cobra.Command {
	o := newOptions()
	command := &cobra.Command{
		Use:   "load-watcher",
		Short: "Serves the load of nodes to several schedulers",
		Long: `Reads the load of the cluster's nodes from Prometheus, metrics-server, SignalFx or Datadog. It serves the load to any
number of schedulers by load-watcher's HTTP API: GET /watcher[?host=NAME], GET /watcher/health, /metrics and /healthz.

Flags override the environment variables that they name. Pass a token for the metrics provider in a file or in
METRICS_PROVIDER_TOKEN. Pass Datadog's application key in a file or in METRICS_PROVIDER_APP_KEY. Without a token,
ENABLE_OPENSHIFT_AUTH=true sends the token of the pod's service account to an https Prometheus with a verified certificate.`,
		Args:         cobra.NoArgs,
		Version:      version,
		SilenceUsage: true, // an error has one line
		RunE: func(cmd *cobra.Command, _ []string) error {
			spec, err := o.complete(cmd.Flags())
			if err != nil {
				return err
			}
			cluster, err := o.cluster()
			if err != nil {
				return err
			}
			if err := logsapi.ValidateAndApply(o.logging, nil); err != nil {
				return err
			}
			finding.Warn(o.checkQueries(&spec.MetricProvider), o.logging.Format)
			s, err := start(cmd.Context(), o, spec, cluster, t)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			context.AfterFunc(ctx, stop) // a second signal ends the program at once
			listener, err := net.Listen("tcp", o.listenAddress)
			if err != nil {
				s.close()
				return fmt.Errorf("--listen-address: %w", err)
			}
			return s.run(ctx, listener)
		},
	}
	command.SetVersionTemplate("Plimsoll {{.Version}}\n")
	o.addFlags(command.Flags())
	return command
}

package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/refresh"
)

// metricsOf is where metrics are registered, and what shows them.
type metricsOf struct {
	refresh.Registry
	handler http.Handler
}

func newCommand(m metricsOf) *cobra.Command {
	o := newOptions()
	command := &cobra.Command{
		Use:   "load-watcher",
		Short: "Serves the load of nodes to several schedulers",
		Long: `Reads the load of the cluster's nodes from Prometheus or metrics-server, and serves it to any number of schedulers by
load-watcher's HTTP API: GET /watcher[?host=NAME][&window=5m] and GET /watcher/health, and beside them /metrics and /healthz.

Settings are taken from flags, else from the environment variables that the flags name. A bearer token for the metrics
provider is given in a file, or in METRICS_PROVIDER_TOKEN; without either and with ENABLE_OPENSHIFT_AUTH=true, an https provider
whose certificate is verified is sent the token of the pod's service account.`,
		Args:         cobra.NoArgs,
		Version:      programVersion(),
		SilenceUsage: true, // a mistake is told in one line
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
			s, err := newService(cmd.Context(), o, spec, cluster, m)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			context.AfterFunc(ctx, stop) // a second signal does not wait
			listener, err := net.Listen("tcp", o.listenAddress)
			if err != nil {
				return fmt.Errorf("--listen-address: %w", err)
			}
			return s.run(ctx, listener)
		},
	}
	command.SetVersionTemplate("Plimsoll {{.Version}}\n")
	o.addFlags(command.Flags())
	return command
}

func programVersion() string {
	built := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		built = info.Main.Version
	}
	return cmp.Or(version, built)
}

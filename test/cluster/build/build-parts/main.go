// build-parts builds into bin/ all the programs that tests need and that are missing or out of date, so that no test has to
// wait for a compiler.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/plimsoll-scheduler/plimsoll/test/cluster/build"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "build-parts:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	builder, err := build.New(ctx, os.Stdout)
	if err != nil {
		return err
	}
	return builder.Build(ctx,
		build.Etcd(), build.KubeAPIServer(), build.KubeScheduler(), build.KubeSchedulerRace(), build.KWOK(), build.Prometheus(),
		build.MetricsServer(), build.Kubectl())
}

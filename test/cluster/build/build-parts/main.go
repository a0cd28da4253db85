// build-parts builds into bin/ the programs that tests need and that are missing or out of date, so that no test has to wait
// for a compiler: all of them, or those that its arguments name.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/plimsoll-scheduler/plimsoll/test/cluster/build"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "build-parts:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, names []string) error {
	parts := []build.Part{
		build.Etcd(), build.KubeAPIServer(), build.KubeScheduler(), build.KubeSchedulerRace(), build.KWOK(), build.Prometheus(),
		build.MetricsServer(), build.Kubectl(), build.Helm(), build.Kubeconform(), build.Promtool(), build.LoadWatcher(),
		build.StockKubeScheduler(),
	}
	for _, name := range names {
		if !slices.ContainsFunc(parts, func(p build.Part) bool { return p.Name == name }) {
			return fmt.Errorf("there is no program %q", name)
		}
	}
	builder, err := build.New(ctx, os.Stdout)
	if err != nil {
		return err
	}
	if len(names) > 0 {
		parts = slices.DeleteFunc(parts, func(p build.Part) bool { return !slices.Contains(names, p.Name) })
	}
	return builder.Build(ctx, parts...)
}

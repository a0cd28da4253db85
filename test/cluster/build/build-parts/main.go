// build-parts builds the programs that tests need into bin/, so that no test has to wait for a compiler. Arguments name the
// programs; without arguments it builds all. It skips programs that are up to date.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
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

func run(ctx context.Context, wanted []string) error {
	parts := build.All()
	for _, name := range wanted {
		if !slices.ContainsFunc(parts, func(p build.Part) bool { return p.Name == name }) {
			return fmt.Errorf("unknown program %q; the programs are %s", name, strings.Join(names(parts), ", "))
		}
	}
	builder, err := build.New(ctx, os.Stdout)
	if err != nil {
		return err
	}
	if len(wanted) > 0 {
		parts = slices.DeleteFunc(parts, func(p build.Part) bool { return !slices.Contains(wanted, p.Name) })
	}
	return builder.Build(ctx, parts...)
}

func names(parts []build.Part) []string {
	var names []string
	for _, p := range parts {
		names = append(names, p.Name)
	}
	return names
}

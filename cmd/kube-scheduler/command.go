package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/metrics"
	componentversion "k8s.io/component-base/version"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	inTree "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	_ "github.com/plimsoll-scheduler/plimsoll/apis/config/scheme" // the stock command decodes the plugins' arguments
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider"
	"github.com/plimsoll-scheduler/plimsoll/pkg/refresh"
)

// version is set by the linker.
var version string

// newCommand returns the stock scheduler's command with the plugins added. It refuses a configuration with invalid arguments of
// these plugins before it listens on any port. The environment completes the arguments. The plugins' metrics go to registry. Load is
// read as account where a source has no token of its own.
func newCommand(c clock.Clock, registry refresh.Registry, account provider.Account) *cobra.Command {
	var options []app.Option
	names := slices.Collect(maps.Keys(inTree.NewInTreeRegistry()))
	registerBuildInfo(registry)
	skew := &skewCheck{}
	for name, factory := range plugins.NewRegistry(provider.New(c, registry, account), c, registry.MustRegister) {
		build := completed(factory)
		options = append(options, app.WithPlugin(name, func(ctx context.Context, args runtime.Object, handle minor.Handle) (minor.Plugin, error) {
			skew.start(ctx, handle)
			return build(ctx, args, handle)
		}))
		names = append(names, name)
	}
	slices.Sort(names)
	var findings []configlint.Finding
	options = append(options, func(frameworkruntime.Registry) error {
		// The stock command applies options after it has set the log's format and verbosity.
		for _, finding := range findings {
			klog.Background().Info(finding.Message, finding.KeysAndValues()...)
		}
		return nil
	})
	command := app.NewSchedulerCommand(options...)
	run := command.RunE
	command.RunE = func(cmd *cobra.Command, args []string) error {
		flags := cmd.Flags()
		switch flags.Lookup("version").Value.String() {
		case "true", "raw":
			printVersion(cmd.OutOrStdout())
			return run(cmd, args) // prints Kubernetes' version and exits
		}
		if file, err := flags.GetString("config"); err == nil {
			if findings, err = checkFile(file, configlint.Options{Plugins: names, Flags: flags, Getenv: os.Getenv}); err != nil {
				return fmt.Errorf("configuration %s: %w", file, err)
			}
		}
		return run(cmd, args)
	}
	return command
}

// completed returns a factory whose plugins' arguments are completed from the environment.
func completed(factory frameworkruntime.PluginFactory) frameworkruntime.PluginFactory {
	return func(ctx context.Context, args runtime.Object, handle minor.Handle) (minor.Plugin, error) {
		if _, ok := args.(interface{ GetLoadSpec() *config.LoadSpec }); ok {
			args = args.DeepCopyObject() // the scheduler shows its configuration in its log
			args.(interface{ GetLoadSpec() *config.LoadSpec }).GetLoadSpec().CompleteFromEnvironment(os.Getenv)
		}
		return factory(ctx, args, handle)
	}
}

// checkFile checks a regular file. Any other kind, such as a pipe, can be read only once: the stock command reads it, and the
// plugins validate their arguments themselves.
func checkFile(file string, options configlint.Options) ([]configlint.Finding, error) {
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return nil, nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return configlint.Check(content, options)
}

func printVersion(out io.Writer) { fmt.Fprintln(out, "Plimsoll", programVersion()) }

func programVersion() string {
	built := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		built = info.Main.Version
	}
	return cmp.Or(version, built)
}

// registerBuildInfo registers a metric that tells the versions, as kubernetes_build_info tells those of the stock scheduler.
func registerBuildInfo(registry refresh.Registry) {
	info := metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           "plimsoll_build_info",
		Help:           "Always 1. The labels are the version of Plimsoll, and that of the Kubernetes that it is built with.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"version", "kubernetes"})
	registry.MustRegister(info)
	info.WithLabelValues(programVersion(), componentversion.Get().GitVersion).Set(1)
}

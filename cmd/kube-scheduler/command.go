package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"sync"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/metrics"
	componentversion "k8s.io/component-base/version"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	_ "github.com/plimsoll-scheduler/plimsoll/apis/config/scheme" // registers the types of the plugins' arguments
	"github.com/plimsoll-scheduler/plimsoll/internal/program"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint/finding"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider/sources"
	"github.com/plimsoll-scheduler/plimsoll/pkg/refresh"
)

// version is set by the linker.
var version string

// newCommand returns the stock scheduler's command with the plugins added. It refuses a configuration with invalid arguments of
// these plugins before it listens on any port. The plugins' metrics go to registry. For a source without a token, requests are
// authenticated as the service account.
func newCommand(c clock.WithTicker, registry refresh.Registry, serviceAccount sources.Account) *cobra.Command {
	var options []app.Option
	registerBuildInfo(registry)
	var format string // of the log
	opened := provider.New(c, registry, serviceAccount)
	var serve func(context.Context)
	for name, factory := range plugins.NewRegistry(opened, c, registry.MustRegister) {
		options = append(options, app.WithPlugin(name, withEnvironment(
			func(ctx context.Context, args runtime.Object, handle minor.Handle) (minor.Plugin, error) {
				serve(ctx)
				return factory(ctx, args, handle)
			})))
	}
	var findings []finding.Finding
	options = append(options, func(frameworkruntime.Registry) error {
		// The stock command applies options after it has set the log's format and verbosity.
		finding.Warn(findings, format)
		return nil
	})
	command := app.NewSchedulerCommand(options...)
	own := pflag.NewFlagSet("Plimsoll", pflag.ContinueOnError)
	validateOnly := own.Bool("validate-only", false,
		"validate the file of --config and exit: 0 if the scheduler would start with it, else 1. "+
			"Needs no cluster, and does not read the files that the configuration names, such as tokens.")
	loadPort := own.Int(provider.PortFlag, provider.ServedPort,
		"port at which the measured load that decisions read is served, to those who may get "+provider.ServedPath+". 0 serves none.")
	command.Flags().AddFlagSet(own)
	var once sync.Once
	var serving sync.WaitGroup
	serve = func(ctx context.Context) {
		if *loadPort > 0 {
			once.Do(func() { serving.Go(func() { serveLoad(ctx, opened, command.Flags(), *loadPort) }) })
		}
	}
	help := command.HelpFunc()
	command.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		help(cmd, args) // prints only the stock flags
		_, _ = fmt.Fprintf(cmd.OutOrStdout(), "\nPlimsoll flags:\n\n%s", own.FlagUsages())
	})
	run := command.RunE
	command.RunE = func(cmd *cobra.Command, args []string) error {
		flags := cmd.Flags()
		switch flags.Lookup("version").Value.String() {
		case "true", "raw":
			printVersion(cmd.OutOrStdout())
			return run(cmd, args) // prints Kubernetes' version and exits
		}
		file, err := flags.GetString("config")
		if err != nil {
			return err
		}
		if *loadPort < 0 || *loadPort > math.MaxUint16 {
			return fmt.Errorf("--load-port is %d, must be in 0 to 65535; 0 serves no load", *loadPort)
		}
		lint := plugins.LintOptions()
		lint.Flags, lint.Getenv = flags, os.Getenv
		if *validateOnly {
			err := configlint.Validate(cmd.OutOrStdout(), cmd.ErrOrStderr(), file, lint)
			if err != nil {
				klog.SetLogger(logr.Discard()) // cli.Run would log the error, too
			}
			return err
		}
		format = flags.Lookup("logging-format").Value.String()
		if findings, err = configlint.CheckFile(file, lint); err != nil {
			return fmt.Errorf("configuration %s: %w", file, err)
		}
		defer serving.Wait()
		return run(cmd, args)
	}
	return command
}

// withEnvironment returns a factory that sets empty arguments for SignalFx and Datadog from environment variables.
func withEnvironment(factory frameworkruntime.PluginFactory) frameworkruntime.PluginFactory {
	return func(ctx context.Context, args runtime.Object, handle minor.Handle) (minor.Plugin, error) {
		if config.LoadSpecOf(args) != nil {
			args = args.DeepCopyObject() // the original is logged, and must not contain tokens from the environment
			config.LoadSpecOf(args).CompleteFromEnvironment(os.Getenv)
		}
		return factory(ctx, args, handle)
	}
}

func printVersion(out io.Writer) { fmt.Fprintln(out, "Plimsoll", program.Version(version)) }

// registerBuildInfo registers plimsoll_build_info, the counterpart of kubernetes_build_info.
func registerBuildInfo(registry refresh.Registry) {
	info := metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           refresh.BuildInfo,
		Help:           "Always 1. The labels are the version of Plimsoll, and that of the Kubernetes that it is built with.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"version", "kubernetes"})
	registry.MustRegister(info)
	info.WithLabelValues(program.Version(version), componentversion.Get().GitVersion).Set(1)
}

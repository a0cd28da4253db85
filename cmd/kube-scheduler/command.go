package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/component-base/metrics"
	componentversion "k8s.io/component-base/version"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubeschedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	kubeschedulervalidation "k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	inTree "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	_ "github.com/plimsoll-scheduler/plimsoll/apis/config/scheme" // the stock command decodes the plugins' arguments
	"github.com/plimsoll-scheduler/plimsoll/internal/program"
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
	skewed := &skewCheck{}
	var format string // of the log
	for name, factory := range plugins.NewRegistry(provider.New(c, registry, account), c, registry.MustRegister) {
		build := completed(factory)
		options = append(options, app.WithPlugin(name, func(ctx context.Context, args runtime.Object, handle minor.Handle) (minor.Plugin, error) {
			skewed.start(ctx, handle, format)
			return build(ctx, args, handle)
		}))
		names = append(names, name)
	}
	slices.Sort(names)
	var findings []configlint.Finding
	options = append(options, func(frameworkruntime.Registry) error {
		// The stock command applies options after it has set the log's format and verbosity.
		configlint.Warn(findings, format)
		return nil
	})
	command := app.NewSchedulerCommand(options...)
	own := pflag.NewFlagSet("Plimsoll", pflag.ContinueOnError)
	validateOnly := own.Bool("validate-only", false, "check the file that --config names, print what is wrong or surprising in it, and exit: with 1 if the "+
		"scheduler would not start with it, otherwise with 0. No cluster is needed, nor the files that the configuration names.")
	command.Flags().AddFlagSet(own)
	help := command.HelpFunc()
	command.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		help(cmd, args) // knows the stock flags alone
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
		lint := configlint.Options{Plugins: names, Flags: flags, Getenv: os.Getenv}
		if *validateOnly {
			err := validate(cmd, file, lint)
			if err != nil {
				_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "Error: %v\n", err)
				klog.SetLogger(logr.Discard()) // cli.Run would log the error, too
			}
			return err
		}
		format = flags.Lookup("logging-format").Value.String()
		if findings, err = checkFile(file, lint); err != nil {
			return fmt.Errorf("configuration %s: %w", file, err)
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
	findings, err := configlint.Check(content, options)
	return findings, errors.Join(err, fatal(findings))
}

// fatal returns an error if the scheduler does not start with the findings.
func fatal(findings []configlint.Finding) error {
	var errs []error
	for i := range findings {
		if findings[i].Fatal {
			errs = append(errs, errors.New(findings[i].String()))
		}
	}
	return utilerrors.NewAggregate(errs)
}

// validate checks a file as the scheduler does at start, except for the files that the configuration names: they are in the
// scheduler's pod. It prints what is wrong or surprising.
func validate(cmd *cobra.Command, file string, options configlint.Options) error {
	if file == "" {
		return errors.New("--validate-only: name the file to check with --config")
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	options.FilesAreElsewhere = true
	findings, err := configlint.Check(content, options)
	for i := range findings {
		if !findings[i].Fatal {
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "Warning: %v\n", &findings[i])
		}
	}
	if err == nil {
		err = fatal(findings)
	}
	if err == nil {
		var cfg *kubeschedulerconfig.KubeSchedulerConfiguration
		if cfg, err = configlint.Decode(content); err == nil {
			err = kubeschedulervalidation.ValidateKubeSchedulerConfiguration(cfg)
		}
	}
	if err != nil {
		problems := []error{err}
		if aggregate := utilerrors.Aggregate(nil); errors.As(err, &aggregate) {
			problems = aggregate.Errors()
		}
		for _, problem := range problems {
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "Error: %v\n", problem)
		}
		return fmt.Errorf("configuration %s is invalid", file)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "configuration %s is valid\n", file)
	return err
}

func printVersion(out io.Writer) { fmt.Fprintln(out, "Plimsoll", program.Version(version)) }

// registerBuildInfo registers a metric that tells the versions, as kubernetes_build_info tells those of the stock scheduler.
func registerBuildInfo(registry refresh.Registry) {
	info := metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name:           "plimsoll_build_info",
		Help:           "Always 1. The labels are the version of Plimsoll, and that of the Kubernetes that it is built with.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"version", "kubernetes"})
	registry.MustRegister(info)
	info.WithLabelValues(program.Version(version), componentversion.Get().GitVersion).Set(1)
}

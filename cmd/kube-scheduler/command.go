package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	inTree "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"

	_ "github.com/plimsoll-scheduler/plimsoll/apis/config/scheme" // plugin args decode like the stock plugins' own
	"github.com/plimsoll-scheduler/plimsoll/apis/config/validation"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider"
	"github.com/plimsoll-scheduler/plimsoll/pkg/refresh"
)

// version is set by the linker.
var version string

// newCommand returns the stock scheduler's command with the plugins added. A configuration with a mistake in the plugins'
// arguments is refused before the command listens on any port. The plugins' metrics go to registry. Load is read as account
// where a source has no token of its own.
func newCommand(c clock.Clock, registry refresh.Registry, account provider.Account) *cobra.Command {
	var additions []app.Option
	known := slices.Collect(maps.Keys(inTree.NewInTreeRegistry()))
	for name, factory := range plugins.NewRegistry(provider.New(c, registry, account), c, registry.MustRegister) {
		additions = append(additions, app.WithPlugin(name, factory))
		known = append(known, name)
	}
	slices.Sort(known) // so that advice names them in one order
	var notes []warning
	additions = append(additions, func(frameworkruntime.Registry) error {
		// Options are applied when the log has the format and the verbosity that the flags say.
		for _, note := range notes {
			klog.Background().Info(note.message, note.keysAndValues...)
		}
		return nil
	})
	command := app.NewSchedulerCommand(additions...)
	run := command.RunE
	command.RunE = func(cmd *cobra.Command, args []string) error {
		flags := cmd.Flags()
		switch flags.Lookup("version").Value.String() {
		case "true", "raw":
			printVersion(cmd.OutOrStdout())
			return run(cmd, args) // which prints Kubernetes' version and exits
		}
		if file, err := flags.GetString("config"); err == nil {
			if notes, err = checkConfiguration(file, known, flags); err != nil {
				return fmt.Errorf("configuration %s: %w", file, err)
			}
		}
		return run(cmd, args)
	}
	return command
}

// checkConfiguration finds the mistakes in a configuration for which the stock command would already have opened its port,
// and what it would pass over in silence. What is no regular file can be read but once, and is left to the stock command and
// to the plugins, which validate their arguments as well.
func checkConfiguration(file string, known []string, flags *pflag.FlagSet) ([]warning, error) {
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return nil, nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if err := checkVersion(content, known); err != nil {
		return nil, err
	}
	configuration, err := options.LoadConfigFromFile(klog.Background(), file)
	if err != nil {
		return nil, err
	}
	if err := validation.ValidatePluginConfigs(configuration); err != nil {
		return nil, err
	}
	return warnings(content, configuration, known, flags), nil
}

func printVersion(out io.Writer) {
	v := version
	if info, ok := debug.ReadBuildInfo(); v == "" && ok {
		v = info.Main.Version
	}
	fmt.Fprintln(out, "Plimsoll", v)
}

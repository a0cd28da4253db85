package service

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider"
)

// variables returns the environment variables of existing deployments, by flag.
// Tokens have no flag: all users of a machine see a program's arguments.
func variables() map[string]string {
	return map[string]string{
		flagProviderName:       "METRICS_PROVIDER_NAME",
		flagProviderAddress:    "METRICS_PROVIDER_ADDRESS",
		flagInsecureSkipVerify: "INSECURE_SKIP_VERIFY",
		flagKubeconfig:         "KUBE_CONFIG",
		flagVerbosity:          "LOG_LEVEL",
	}
}

// filterVariables returns the environment variables of existing deployments for one type of provider, by flag.
func filterVariables(provider config.MetricProviderType) map[string]string {
	clusterName, hostNameSuffix := config.FilterVariables(provider)
	return map[string]string{flagClusterName: clusterName, flagHostNameSuffix: hostNameSuffix}
}

// readEnvironment sets flags that are not on the command line by their variables. An empty variable counts as unset.
func (o *options) readEnvironment(fs *pflag.FlagSet) error {
	for flag, variable := range variables() {
		value := os.Getenv(variable)
		if value == "" || fs.Changed(flag) {
			continue
		}
		if flag == flagVerbosity {
			verbosity, err := verbosityOf(value)
			if err != nil {
				return fmt.Errorf("%s: %w", nameOf(flag), err)
			}
			value = verbosity
		}
		if err := fs.Set(flag, value); err != nil {
			return fmt.Errorf("env %s: %w", variable, err)
		}
	}
	// Existing deployments name Datadog's site alone.
	if p := &o.load.MetricProvider; p.Type == config.Datadog && p.Address != "" && !strings.Contains(p.Address, "://") {
		p.Address = "https://api." + strings.TrimPrefix(p.Address, "api.")
	}
	account, err := provider.AccountOfEnvironment()
	if err != nil {
		return err
	}
	o.account = account
	if token := os.Getenv(config.TokenVariable); !fs.Changed(flagTokenFile) {
		o.load.MetricProvider.Token = config.Secret(token)
	}
	return nil
}

// hostedVariable returns a lookup of the provider's environment variables. A variable is empty if its flag is set.
func (o *options) hostedVariable(fs *pflag.FlagSet) func(variable string) string {
	flags := map[string]string{config.TokenVariable: flagTokenFile, config.ApplicationKeyVariable: flagApplicationKeyFile}
	for flag, variable := range filterVariables(o.load.MetricProvider.Type) {
		flags[variable] = flag
	}
	return func(variable string) string {
		if fs.Changed(flags[variable]) {
			return ""
		}
		return os.Getenv(variable)
	}
}

// verbosityOf returns klog's verbosity for a level of logrus, which existing deployments set.
func verbosityOf(level string) (string, error) {
	switch strings.ToLower(level) {
	case "panic", "fatal", "error", "warn", "warning":
		return "0", nil
	case "info":
		return "2", nil
	case "debug":
		return "4", nil
	case "trace":
		return "6", nil
	}
	return "", fmt.Errorf("%q is none of panic, fatal, error, warn, info, debug, trace", level)
}

func nameOf(flag string) string {
	if variable, ok := variables()[flag]; ok {
		return "--" + flag + " (env " + variable + ")"
	}
	return "--" + flag
}

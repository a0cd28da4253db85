package loadwatcher

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	v1 "github.com/plimsoll-scheduler/plimsoll/apis/config/v1"
	"github.com/plimsoll-scheduler/plimsoll/apis/config/validation"
	"github.com/plimsoll-scheduler/plimsoll/internal/program"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint/finding"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider/sources"
)

const (
	flagTokenFile  = "token-file"
	flagTimeout    = "timeout"
	flagKubeconfig = "kubeconfig"
)

type options struct {
	listenAddress                  string
	tlsCertFile, tlsPrivateKeyFile string
	kubeconfig                     string
	account                        sources.Account
	// load has the defaults of plugin arguments, so that the service and the schedulers agree.
	load    v1.LoadSpec
	queries config.LoadQueries
	logging *logsapi.LoggingConfiguration
}

func newOptions() *options {
	o := &options{listenAddress: ":2020", logging: logsapi.NewLoggingConfiguration()}
	v1.SetDefaults_LoadSpec(&o.load)
	v1.SetDefaults_MetricProviderSpec(&o.load.MetricProvider)
	return o
}

type setting struct {
	flag  string
	value any // points to the default
	// field is the path in a LoadSpec, for errors.
	field string
	// variable is the environment variable for the flag, as load-watcher has it. others are variables that only some
	// providers use. readEnvironment reads the token's, CompleteFromEnvironment the rest.
	variable string
	others   []string
	usage    string
}

func (s *setting) variables() string {
	all := slices.DeleteFunc(append([]string{s.variable}, s.others...), func(variable string) bool { return variable == "" })
	if len(all) == 0 {
		return ""
	}
	return " (env " + strings.Join(all, ", ") + ")"
}

// settings returns all settings. Tokens have no flag: all users of a machine see a program's arguments.
func (o *options) settings() []setting {
	p := &o.load.MetricProvider
	var clusterNames, suffixes []string
	for _, t := range []config.MetricProviderType{config.SignalFx, config.Datadog} {
		clusterName, suffix := config.HostFilterVariables(t)
		clusterNames, suffixes = append(clusterNames, clusterName), append(suffixes, suffix)
	}
	return []setting{
		{flag: "listen-address", value: &o.listenAddress, usage: "host:port to serve on; without a host, all addresses"},
		{flag: "tls-cert-file", value: &o.tlsCertFile,
			usage: "file with the PEM certificate and its chain, to serve TLS; read again when it changes"},
		{flag: "tls-private-key-file", value: &o.tlsPrivateKeyFile, usage: "file with the PEM key of --tls-cert-file"},
		{flag: flagKubeconfig, value: &o.kubeconfig, variable: "KUBE_CONFIG",
			usage: "kubeconfig of the cluster to read nodes and, with KubernetesMetricsServer, load from; by default the pod's cluster"},
		{flag: "metrics-provider-name", value: (*string)(&p.Type), field: "metricProvider.type", variable: "METRICS_PROVIDER_NAME",
			usage: "KubernetesMetricsServer, Prometheus, SignalFx or Datadog"},
		{flag: "metrics-provider-address", value: &p.Address, field: "metricProvider.address", variable: "METRICS_PROVIDER_ADDRESS",
			usage: "http(s) URL of SignalFx, Datadog or Prometheus' HTTP API, with its path prefix; or Datadog's site"},
		{flag: flagTokenFile, value: &p.TokenFile, field: "metricProvider.tokenFile", others: []string{config.TokenVariable},
			usage: "file with Prometheus' bearer token, SignalFx' access token or Datadog's API key, read again as it rotates; " +
				"the variable is the token itself"},
		{flag: "application-key-file", value: &p.ApplicationKeyFile, field: "metricProvider.applicationKeyFile",
			others: []string{config.ApplicationKeyVariable},
			usage:  "file with the application key for Datadog, read again as it rotates; the variable is the key itself"},
		{flag: "cluster-name", value: &p.ClusterName, field: "metricProvider.clusterName", others: clusterNames,
			usage: "cluster's name at SignalFx or Datadog; without it, hosts of all clusters"},
		{flag: "host-name-suffix", value: &p.HostNameSuffix, field: "metricProvider.hostNameSuffix", others: suffixes,
			usage: "suffix of node names at SignalFx or Datadog"},
		{flag: "ca-file", value: &p.CAFile, field: "metricProvider.caFile",
			usage: "PEM bundle to verify the provider's certificate with, instead of the system's roots"},
		{flag: "http-config-file", value: &p.HTTPConfigFile, field: "metricProvider.httpConfigFile",
			usage: "file of Prometheus' HTTP client configuration, for basic authentication, OAuth2, client certificates or headers"},
		{flag: "insecure-skip-verify", value: p.InsecureSkipVerify, variable: "INSECURE_SKIP_VERIFY",
			usage: "do not verify the provider's certificate"},
		{flag: "dialect", value: (*string)(&p.Dialect), field: "metricProvider.dialect",
			usage: fmt.Sprintf("series with the load: Auto; for Prometheus one of %v; for Datadog Utilization or DatadogAgent",
				config.PrometheusDialects())},
		{flag: "cpu-query", value: &o.queries.CPU, field: "metricProvider.queries.cpu",
			usage: "query for a node's cpu utilization, instead of the dialect's: PromQL for a fraction of capacity, with $window; " +
				"for SignalFx and Datadog in percent"},
		{flag: "memory-query", value: &o.queries.Memory, field: "metricProvider.queries.memory",
			usage: "query for a node's memory utilization, as --cpu-query"},
		{flag: "node-labels", value: &p.NodeLabels, field: "metricProvider.nodeLabels",
			usage: "labels of series that may name the node, in this order"},
		{flag: "selector", value: &p.Selector, field: "metricProvider.selector",
			usage: "label matchers of PromQL that the dialect's series must match, such as {namespace=\"monitoring\"}"},
		{flag: flagTimeout, value: &p.Timeout.Duration, field: "metricProvider.timeout",
			usage: "longest duration of a refresh; by default at most half of --max-age"},
		{flag: "window", value: &o.load.Window.Duration, field: "window",
			usage: "window of means and deviations"},
		{
			flag: "refresh-interval", value: &o.load.RefreshInterval.Duration, field: "refreshInterval",
			usage: "time between two refreshes",
		},
		{flag: "max-age", value: &o.load.MaxAge.Duration, field: "maxAge", usage: "age beyond which load is no longer served"},
		{flag: "drift-tolerance", value: o.load.DriftTolerance, field: "driftTolerance",
			usage: "load is served until, at the node's usual pace, it can have moved by this many percentage points"},
	}
}

func (o *options) addFlags(flags *pflag.FlagSet) {
	logsapi.AddFlags(o.logging, flags)
	for _, s := range o.settings() {
		usage := s.usage + s.variables()
		switch value := s.value.(type) {
		case *string:
			flags.StringVar(value, s.flag, *value, usage)
		case *bool:
			flags.BoolVar(value, s.flag, *value, usage)
		case *float64:
			flags.Float64Var(value, s.flag, *value, usage)
		case *time.Duration:
			flags.DurationVar(value, s.flag, *value, usage)
		case *[]string:
			flags.StringSliceVar(value, s.flag, *value, usage)
		}
	}
}

// readEnvironment sets each flag from its variable, unless the command line sets the flag. An empty variable counts as unset.
func (o *options) readEnvironment(fs *pflag.FlagSet) (err error) {
	for _, s := range o.settings() {
		value := ""
		if s.variable != "" && !fs.Changed(s.flag) {
			value = os.Getenv(s.variable)
		}
		if value == "" {
			continue
		}
		if err := fs.Set(s.flag, value); err != nil {
			return fmt.Errorf("env %s: %w", s.variable, err)
		}
	}
	// Existing deployments set only Datadog's site, such as datadoghq.eu.
	if p := &o.load.MetricProvider; p.Type == config.Datadog && p.Address != "" && !strings.Contains(p.Address, "://") {
		p.Address = "https://api." + strings.TrimPrefix(p.Address, "api.")
	}
	if !fs.Changed(flagTokenFile) {
		o.load.MetricProvider.Token = config.Secret(os.Getenv(config.TokenVariable))
	}
	o.account, err = sources.ServiceAccountFromEnvironment()
	return err
}

func (o *options) cluster() (*rest.Config, error) {
	return program.ReadKubeconfig("--"+flagKubeconfig+" (env KUBE_CONFIG)", o.kubeconfig, "load-watcher")
}

// complete adds the environment and the defaults to the flags, validates all settings, and returns the load to read.
// An error has one line, names the flag and the variable, and shows no secret.
func (o *options) complete(fs *pflag.FlagSet) (config.LoadSpec, error) {
	if err := o.readEnvironment(fs); err != nil {
		return config.LoadSpec{}, err
	}
	if err := o.validateListening(); err != nil {
		return config.LoadSpec{}, err
	}
	if o.queries != (config.LoadQueries{}) {
		o.load.MetricProvider.Queries = &o.queries
	}
	return o.validLoad(fs)
}

func (o *options) validateListening() error {
	if _, _, err := net.SplitHostPort(o.listenAddress); err != nil {
		return fmt.Errorf("--listen-address: %w: write host:port, or :port for all addresses", err)
	}
	if (o.tlsCertFile == "") != (o.tlsPrivateKeyFile == "") {
		return errors.New("--tls-cert-file, --tls-private-key-file: one of them is set: set both, or none to serve plain HTTP")
	}
	if o.tlsCertFile == "" {
		return nil
	}
	if _, err := tls.LoadX509KeyPair(o.tlsCertFile, o.tlsPrivateKeyFile); err != nil {
		return fmt.Errorf("--tls-cert-file, --tls-private-key-file: %w", err)
	}
	return nil
}

func (o *options) validLoad(fs *pflag.FlagSet) (config.LoadSpec, error) {
	var spec config.LoadSpec
	versioned := o.load.DeepCopy()
	if !fs.Changed(flagTimeout) {
		versioned.MetricProvider.Timeout = nil // its default depends on the age
	}
	v1.SetDefaults_LoadSpec(versioned)
	v1.SetDefaults_MetricProviderSpec(&versioned.MetricProvider)
	if err := v1.Convert_v1_LoadSpec_To_config_LoadSpec(versioned, &spec, nil); err != nil {
		return config.LoadSpec{}, err
	}
	settings := o.settings()
	spec.CompleteFromEnvironment(func(variable string) string {
		for i := range settings {
			if slices.Contains(settings[i].others, variable) && fs.Changed(settings[i].flag) {
				return ""
			}
		}
		return os.Getenv(variable)
	})
	mistakes := append(mistakesIn(validation.ValidateLoadSpec(nil, &spec)),
		mistakesIn(validation.ValidateCredentials(nil, &spec))...)
	var errs []error
	for _, mistake := range mistakes {
		errs = append(errs, fmt.Errorf("%s: %s", nameOf(settings, mistake.Field), mistake.ErrorBody()))
	}
	return spec, utilerrors.Flatten(utilerrors.NewAggregate(errs))
}

func mistakesIn(err error) (all []*field.Error) {
	if found, ok := errors.AsType[utilerrors.Aggregate](err); ok {
		for _, err := range found.Errors() {
			mistake, _ := errors.AsType[*field.Error](err)
			all = append(all, mistake)
		}
	}
	return all
}

func nameOf(settings []setting, path string) string {
	path, _, _ = strings.Cut(path, "[")
	for i := range settings {
		if s := &settings[i]; s.field == path {
			return "--" + s.flag + s.variables()
		}
	}
	switch path {
	case "metricProvider.applicationKey":
		return "env " + config.ApplicationKeyVariable
	case "metricProvider.token":
		return "env " + config.TokenVariable
	case "metricProvider.queries":
		return "--cpu-query, --memory-query"
	}
	return path
}

func (o *options) checkQueries(provider *config.MetricProviderSpec) []finding.Finding {
	return slices.Concat(finding.CheckLoadQuery("--cpu-query", o.queries.CPU, provider),
		finding.CheckLoadQuery("--memory-query", o.queries.Memory, provider))
}

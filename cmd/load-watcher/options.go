package main

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
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/apis/config/scheme"
	v1 "github.com/plimsoll-scheduler/plimsoll/apis/config/v1"
	"github.com/plimsoll-scheduler/plimsoll/apis/config/validation"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider"
)

// Flags that stand for an environment variable, a field of the LoadSpec, or both.
const (
	flagProviderName       = "metrics-provider-name"
	flagProviderAddress    = "metrics-provider-address"
	flagTokenFile          = "token-file"
	flagApplicationKeyFile = "application-key-file"
	flagClusterName        = "cluster-name"
	flagHostNameSuffix     = "host-name-suffix"
	flagCAFile             = "ca-file"
	flagInsecureSkipVerify = "insecure-skip-verify"
	flagDialect            = "dialect"
	flagCPUQuery           = "cpu-query"
	flagMemoryQuery        = "memory-query"
	flagNodeLabels         = "node-labels"
	flagTimeout            = "timeout"
	flagWindow             = "window"
	flagWindows            = "windows"
	flagRefreshInterval    = "refresh-interval"
	flagMaxAge             = "max-age"
	flagDriftTolerance     = "drift-tolerance"
	flagKubeconfig         = "kubeconfig"
	flagVerbosity          = "v"
)

// tokenVariable and applicationKeyVariable have no flag: all users of a machine see a program's arguments.
const (
	tokenVariable          = config.TokenVariable
	applicationKeyVariable = config.ApplicationKeyVariable
)

// variables returns the environment variables that known deployments set, by flag.
func variables() map[string]string {
	return map[string]string{
		flagProviderName:       "METRICS_PROVIDER_NAME",
		flagProviderAddress:    "METRICS_PROVIDER_ADDRESS",
		flagInsecureSkipVerify: "INSECURE_SKIP_VERIFY",
		flagKubeconfig:         "KUBE_CONFIG",
		flagVerbosity:          "LOG_LEVEL",
	}
}

// filterVariables returns the environment variables that known deployments set for a type of provider alone, by flag.
func filterVariables(provider config.MetricProviderType) map[string]string {
	clusterName, hostNameSuffix := config.FilterVariables(provider)
	return map[string]string{flagClusterName: clusterName, flagHostNameSuffix: hostNameSuffix}
}

type options struct {
	listenAddress                  string
	tlsCertFile, tlsPrivateKeyFile string
	bearerTokenFile                string
	maxConnections                 int
	kubeconfig                     string
	account                        provider.Account
	windows                        []time.Duration
	// load has the defaults of plugin arguments, so that the service and the schedulers agree.
	load    v1.LoadSpec
	queries v1.LoadQueries
	logging *logsapi.LoggingConfiguration
}

func newOptions() *options {
	o := &options{
		listenAddress:  ":2020",
		maxConnections: 256,
		windows:        []time.Duration{5 * time.Minute, 10 * time.Minute, 15 * time.Minute},
		logging:        logsapi.NewLoggingConfiguration(),
	}
	v1.SetDefaults_LoadSpec(&o.load)
	v1.SetDefaults_MetricProviderSpec(&o.load.MetricProvider)
	return o
}

func (o *options) addFlags(fs *pflag.FlagSet) {
	named := func(flag, usage string) (string, string) {
		if variable, ok := variables()[flag]; ok {
			usage += " (env " + variable + ")"
		}
		return flag, usage
	}
	text := func(value *string, flag, usage string) {
		flag, usage = named(flag, usage)
		fs.StringVar(value, flag, *value, usage)
	}
	span := func(value *time.Duration, flag, usage string) {
		flag, usage = named(flag, usage)
		fs.DurationVar(value, flag, *value, usage)
	}

	text(&o.listenAddress, "listen-address", "host:port to serve on; without a host, all addresses")
	text(&o.tlsCertFile, "tls-cert-file", "file with the PEM certificate to serve TLS with, followed by its chain; read again when it changes")
	text(&o.tlsPrivateKeyFile, "tls-private-key-file", "file with the PEM key of --tls-cert-file")
	text(&o.bearerTokenFile, "bearer-token-file", "file with the bearer token that all requests need except those of /healthz; read again every second")
	fs.IntVar(&o.maxConnections, "max-connections", o.maxConnections, "connections at a time, at least 8; an eighth as many requests may be in flight. Client addresses share both")
	text(&o.kubeconfig, flagKubeconfig, "kubeconfig of the cluster to read nodes and, with KubernetesMetricsServer, load from; without it, the cluster of the pod")

	provider := &o.load.MetricProvider
	text((*string)(&provider.Type), flagProviderName, "KubernetesMetricsServer, Prometheus, SignalFx or Datadog")
	text(&provider.Address, flagProviderAddress, "http(s) URL of Prometheus or of any server that speaks its HTTP API, a path prefix included, of SignalFx or of Datadog; of Datadog a site such as datadoghq.eu too")
	text(&provider.TokenFile, flagTokenFile, "file with the bearer token for Prometheus, the access token for SignalFx or the API key for Datadog, read again as it rotates; env "+tokenVariable+" is the token itself")
	text(&provider.ApplicationKeyFile, flagApplicationKeyFile, "file with the application key for Datadog, read again as it rotates; env "+applicationKeyVariable+" is the key itself")
	text(&provider.ClusterName, flagClusterName, "what SignalFx or Datadog call the cluster; without it hosts of all clusters are read (env SIGNALFX_CLUSTER_NAME, DATADOG_CLUSTER_NAME)")
	text(&provider.HostNameSuffix, flagHostNameSuffix, "what hosts of SignalFx or Datadog have after the names of nodes (env SIGNALFX_HOST_NAME_SUFFIX, DATADOG_HOST_NAME_SUFFIX)")
	text(&provider.CAFile, flagCAFile, "PEM bundle to verify the provider's certificate with, instead of the system's roots")
	flag, usage := named(flagInsecureSkipVerify, "do not verify the provider's certificate")
	fs.BoolVar(provider.InsecureSkipVerify, flag, *provider.InsecureSkipVerify, usage)
	text((*string)(&provider.Dialect), flagDialect, "which series hold the load: Auto, of Prometheus NodeExporter, KubePrometheus, Kubelet or cAdvisor, of Datadog Utilization or DatadogAgent")
	text(&o.queries.CPU, flagCPUQuery, "query for a node's cpu utilization, instead of the dialect's: with Prometheus PromQL for a fraction of capacity, in which $window stands for the window; with SignalFx and Datadog in percent")
	text(&o.queries.Memory, flagMemoryQuery, "query for a node's memory utilization, as --cpu-query")
	fs.StringSliceVar(&provider.NodeLabels, flagNodeLabels, provider.NodeLabels, "labels of series that may name the node, tried in this order")
	span(&provider.Timeout.Duration, flagTimeout, "longest time that one refresh may take; by default at most half of --max-age")

	span(&o.load.Window.Duration, flagWindow, "window of means and deviations, unless a request asks for another")
	fs.DurationSliceVar(&o.windows, flagWindows, o.windows, "further windows that a request may ask for by ?window=; each is read at each refresh")
	span(&o.load.RefreshInterval.Duration, flagRefreshInterval, "time between two refreshes")
	span(&o.load.MaxAge.Duration, flagMaxAge, "age beyond which load is no longer served")
	fs.Float64Var(o.load.DriftTolerance, flagDriftTolerance, *o.load.DriftTolerance, "percentage points by which a node's load may have moved, at its usual pace, before it is no longer served")

	logsapi.AddFlags(o.logging, fs)
	verbosity := fs.Lookup(flagVerbosity)
	_, verbosity.Usage = named(flagVerbosity, verbosity.Usage)
}

// complete fills in what the flags leave open from the environment and the defaults, validates all settings, and returns the
// load to read. An error has one line, names the flag and the variable, and shows no secret.
func (o *options) complete(fs *pflag.FlagSet) (config.LoadSpec, error) {
	if err := o.readEnvironment(fs); err != nil {
		return config.LoadSpec{}, err
	}
	if err := o.validateListening(); err != nil {
		return config.LoadSpec{}, err
	}
	if o.queries != (v1.LoadQueries{}) {
		o.load.MetricProvider.Queries = &o.queries
	}
	if !fs.Changed(flagTimeout) {
		o.load.MetricProvider.Timeout = nil // its default depends on the age
	}
	return o.validLoad(fs)
}

// readEnvironment sets the flags that are not given by their variables. An empty variable counts as none.
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
	// Known deployments name the site of Datadog alone.
	if p := &o.load.MetricProvider; p.Type == config.Datadog && p.Address != "" && !strings.Contains(p.Address, "://") {
		p.Address = "https://api." + strings.TrimPrefix(p.Address, "api.")
	}
	account, err := provider.AccountOfEnvironment()
	if err != nil {
		return err
	}
	o.account = account
	if token := os.Getenv(tokenVariable); !fs.Changed(flagTokenFile) {
		o.load.MetricProvider.Token = config.Secret(token)
	}
	return nil
}

// hostedVariable returns the value of an environment variable for the provider, or an empty one if its flag is given.
func (o *options) hostedVariable(fs *pflag.FlagSet) func(variable string) string {
	flags := map[string]string{tokenVariable: flagTokenFile, applicationKeyVariable: flagApplicationKeyFile}
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

// verbosityOf returns klog's verbosity for a level of logrus, which load-watcher logs with.
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

// nameOf returns the name of a flag in errors.
func nameOf(flag string) string {
	if variable, ok := variables()[flag]; ok {
		return "--" + flag + " (env " + variable + ")"
	}
	return "--" + flag
}

func (o *options) validateListening() error {
	if _, _, err := net.SplitHostPort(o.listenAddress); err != nil {
		return fmt.Errorf("--listen-address: %w: write host:port, or :port for all addresses", err)
	}
	if o.maxConnections < connectionsPerRequest {
		return fmt.Errorf("--max-connections: %d: set at least %d", o.maxConnections, connectionsPerRequest)
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

// validLoad returns the load to read, validated by the rules of the plugins' arguments.
func (o *options) validLoad(fs *pflag.FlagSet) (config.LoadSpec, error) {
	switch provider := o.load.MetricProvider.Type; provider {
	case config.KubernetesMetricsServer, config.Prometheus, config.SignalFx, config.Datadog:
	default:
		return config.LoadSpec{}, fmt.Errorf("%s: %q is none of KubernetesMetricsServer, Prometheus, SignalFx and Datadog", nameOf(flagProviderName), provider)
	}
	// Any arguments that hold a LoadSpec serve; their other fields have the defaults.
	given, args := &v1.LoadVariationRiskBalancingArgs{LoadSpec: o.load}, &config.LoadVariationRiskBalancingArgs{}
	s := runtime.NewScheme()
	if err := scheme.AddToScheme(s); err != nil {
		return config.LoadSpec{}, err
	}
	s.Default(given)
	if err := s.Convert(given, args, nil); err != nil {
		return config.LoadSpec{}, err
	}
	args.CompleteFromEnvironment(o.hostedVariable(fs))
	var errs []error
	for _, mistake := range mistakes(args) {
		path, _, _ := strings.Cut(mistake.Field, "[")
		errs = append(errs, inFlags(mistake, flagOf(path, args.MetricProvider.Type)))
	}
	for _, window := range o.windows {
		other := args.DeepCopy()
		other.Window.Duration = window
		for _, mistake := range mistakes(other) {
			if mistake.Field == "window" {
				errs = append(errs, inFlags(mistake, nameOf(flagWindows)))
			}
		}
	}
	return args.LoadSpec, utilerrors.Flatten(utilerrors.NewAggregate(errs))
}

// checkQueries returns what is surprising in the queries to the provider, which are valid.
func (o *options) checkQueries(provider *config.MetricProviderSpec) []configlint.Finding {
	return slices.Concat(
		configlint.CheckLoadQuery("--"+flagCPUQuery, o.queries.CPU, provider),
		configlint.CheckLoadQuery("--"+flagMemoryQuery, o.queries.Memory, provider),
	)
}

// mistakes returns what the validation of the plugins' arguments finds.
func mistakes(args *config.LoadVariationRiskBalancingArgs) []*field.Error {
	var found []*field.Error
	for _, err := range []error{validation.ValidateLoadVariationRiskBalancingArgs(nil, args), validation.ValidateCredentials(nil, &args.LoadSpec)} {
		all, ok := errors.AsType[utilerrors.Aggregate](err)
		if !ok {
			continue
		}
		for _, err := range all.Errors() {
			mistake, ok := errors.AsType[*field.Error](err)
			if !ok {
				mistake = field.InternalError(nil, err)
			}
			found = append(found, mistake)
		}
	}
	return found
}

// flagOf returns the name, in errors, of the flag for a field of a LoadSpec with the type of provider.
func flagOf(path string, provider config.MetricProviderType) string {
	flag, ok := map[string]string{
		"metricProvider.address":            flagProviderAddress,
		"metricProvider.tokenFile":          flagTokenFile,
		"metricProvider.applicationKeyFile": flagApplicationKeyFile,
		"metricProvider.clusterName":        flagClusterName,
		"metricProvider.hostNameSuffix":     flagHostNameSuffix,
		"metricProvider.caFile":             flagCAFile,
		"metricProvider.dialect":            flagDialect,
		"metricProvider.queries":            flagCPUQuery,
		"metricProvider.queries.cpu":        flagCPUQuery,
		"metricProvider.queries.memory":     flagMemoryQuery,
		"metricProvider.nodeLabels":         flagNodeLabels,
		"metricProvider.timeout":            flagTimeout,
		"window":                            flagWindow,
		"refreshInterval":                   flagRefreshInterval,
		"maxAge":                            flagMaxAge,
		"driftTolerance":                    flagDriftTolerance,
	}[path]
	switch variable := filterVariables(provider)[flag]; {
	case variable != "":
		return "--" + flag + " (env " + variable + ")"
	case flag == flagTokenFile && provider != config.Prometheus:
		return "--" + flag + " (or env " + tokenVariable + ")"
	case flag == flagApplicationKeyFile:
		return "--" + flag + " (or env " + applicationKeyVariable + ")"
	case ok:
		return nameOf(flag)
	case path == "metricProvider.applicationKey":
		return "env " + applicationKeyVariable
	case path == "metricProvider.token":
		return "env " + tokenVariable
	}
	return path
}

// inFlags returns a mistake in a field as one in a flag.
func inFlags(mistake *field.Error, name string) error {
	shown := *mistake
	shown.Detail = detailInFlags(shown.Detail)
	return fmt.Errorf("%s: %s", name, shown.ErrorBody())
}

// detailInFlags names flags where a text names fields.
func detailInFlags(text string) string {
	return strings.NewReplacer(
		"metricProvider.tokenFile", "--"+flagTokenFile,
		"applicationKeyFile", "--"+flagApplicationKeyFile,
		"applicationKey", "env "+applicationKeyVariable,
		"tokenFile", "--"+flagTokenFile,
		"refreshInterval", "--"+flagRefreshInterval,
		"maxAge", "--"+flagMaxAge,
		"leave the field out", "leave the flag out",
	).Replace(text)
}

// cluster returns how the API server is reached.
func (o *options) cluster() (*rest.Config, error) {
	var cluster *rest.Config
	var err error
	if o.kubeconfig != "" {
		cluster, err = clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	} else {
		cluster, err = rest.InClusterConfig()
	}
	switch {
	case errors.Is(err, rest.ErrNotInCluster):
		return nil, fmt.Errorf("%s: not set, and this is not a pod of a cluster: name the kubeconfig of the cluster whose nodes are measured", nameOf(flagKubeconfig))
	case err != nil:
		return nil, fmt.Errorf("%s: %w", nameOf(flagKubeconfig), err)
	}
	// Protobuf is read faster; JSON is for servers that have nothing else.
	cluster.ContentType = runtime.ContentTypeProtobuf
	cluster.AcceptContentTypes = strings.Join([]string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON}, ",")
	return rest.AddUserAgent(cluster, "load-watcher"), nil
}

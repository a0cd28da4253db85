package service

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	v1 "github.com/plimsoll-scheduler/plimsoll/apis/config/v1"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider"
)

// Flags for an environment variable, a field of the LoadSpec, or both.
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

// connectionsPerRequest is the number of connections for each request in flight. Most connections wait for the next refresh.
const connectionsPerRequest = 8

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

// flagSet adds flags whose usage names their environment variable.
type flagSet struct{ *pflag.FlagSet }

func (fs flagSet) text(value *string, flag, usage string) {
	fs.StringVar(value, flag, *value, usageOf(flag, usage))
}

func (fs flagSet) span(value *time.Duration, flag, usage string) {
	fs.DurationVar(value, flag, *value, usageOf(flag, usage))
}

func usageOf(flag, usage string) string {
	if variable, ok := variables()[flag]; ok {
		usage += " (env " + variable + ")"
	}
	return usage
}

func (o *options) addFlags(flags *pflag.FlagSet) {
	fs := flagSet{flags}
	fs.text(&o.listenAddress, "listen-address", "host:port to serve on; without a host, all addresses")
	fs.text(&o.tlsCertFile, "tls-cert-file", "file with the PEM certificate and its chain, to serve TLS; read again when it changes")
	fs.text(&o.tlsPrivateKeyFile, "tls-private-key-file", "file with the PEM key of --tls-cert-file")
	fs.text(&o.bearerTokenFile, "bearer-token-file",
		"file with the bearer token for all requests except /healthz; read again every second")
	fs.IntVar(&o.maxConnections, "max-connections", o.maxConnections,
		"maximum of connections, at least 8; of requests in flight, an eighth of it. Client addresses share both")
	fs.text(&o.kubeconfig, flagKubeconfig,
		"kubeconfig of the cluster to read nodes and, with KubernetesMetricsServer, load from; without it, the cluster of the pod")
	o.addProviderFlags(fs)
	fs.span(&o.load.Window.Duration, flagWindow, "window of means and deviations, unless a request asks for another")
	fs.DurationSliceVar(&o.windows, flagWindows, o.windows, "further windows for requests with ?window=; each is read at each refresh")
	fs.span(&o.load.RefreshInterval.Duration, flagRefreshInterval, "time between two refreshes")
	fs.span(&o.load.MaxAge.Duration, flagMaxAge, "age beyond which load is no longer served")
	fs.Float64Var(o.load.DriftTolerance, flagDriftTolerance, *o.load.DriftTolerance,
		"percentage points by which a node's load may have moved, at its usual pace, before it is no longer served")
	logsapi.AddFlags(o.logging, flags)
	verbosity := fs.Lookup(flagVerbosity)
	verbosity.Usage = usageOf(flagVerbosity, verbosity.Usage)
}

func (o *options) addProviderFlags(fs flagSet) {
	provider := &o.load.MetricProvider
	fs.text((*string)(&provider.Type), flagProviderName, "KubernetesMetricsServer, Prometheus, SignalFx or Datadog")
	fs.text(&provider.Address, flagProviderAddress,
		"http(s) URL of SignalFx, Datadog or Prometheus' HTTP API, with its path prefix; or Datadog's site, such as datadoghq.eu")
	fs.text(&provider.TokenFile, flagTokenFile,
		"file with Prometheus' bearer token, SignalFx' access token or Datadog's API key, read again as it rotates; env "+
			config.TokenVariable+" is the token itself")
	fs.text(&provider.ApplicationKeyFile, flagApplicationKeyFile,
		"file with the application key for Datadog, read again as it rotates; env "+config.ApplicationKeyVariable+" is the key itself")
	fs.text(&provider.ClusterName, flagClusterName,
		"cluster's name at SignalFx or Datadog; without it, hosts of all clusters (env SIGNALFX_CLUSTER_NAME, DATADOG_CLUSTER_NAME)")
	fs.text(&provider.HostNameSuffix, flagHostNameSuffix,
		"suffix of node names at SignalFx or Datadog (env SIGNALFX_HOST_NAME_SUFFIX, DATADOG_HOST_NAME_SUFFIX)")
	fs.text(&provider.CAFile, flagCAFile, "PEM bundle to verify the provider's certificate with, instead of the system's roots")
	fs.BoolVar(provider.InsecureSkipVerify, flagInsecureSkipVerify, *provider.InsecureSkipVerify,
		usageOf(flagInsecureSkipVerify, "do not verify the provider's certificate"))
	fs.text((*string)(&provider.Dialect), flagDialect,
		"series with the load: Auto; for Prometheus NodeExporter, KubePrometheus, Kubelet or cAdvisor; "+
			"for Datadog Utilization or DatadogAgent")
	fs.text(&o.queries.CPU, flagCPUQuery,
		"query for a node's cpu utilization, instead of the dialect's: PromQL for a fraction of capacity, with $window; "+
			"for SignalFx and Datadog in percent")
	fs.text(&o.queries.Memory, flagMemoryQuery, "query for a node's memory utilization, as --cpu-query")
	fs.StringSliceVar(&provider.NodeLabels, flagNodeLabels, provider.NodeLabels,
		"labels of series that may name the node, in this order")
	fs.span(&provider.Timeout.Duration, flagTimeout, "longest duration of a refresh; by default at most half of --max-age")
}

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
		return nil, fmt.Errorf("%s: unset outside a pod: name the kubeconfig of the measured cluster",
			nameOf(flagKubeconfig))
	case err != nil:
		return nil, fmt.Errorf("%s: %w", nameOf(flagKubeconfig), err)
	}
	// Protobuf is faster; JSON is for servers without it.
	cluster.ContentType = runtime.ContentTypeProtobuf
	cluster.AcceptContentTypes = strings.Join([]string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON}, ",")
	return rest.AddUserAgent(cluster, "load-watcher"), nil
}

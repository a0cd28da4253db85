// Package sources opens the sources that arguments name, and reaches their servers. No other package knows all kinds of sources.
package sources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/apis/config/validation"
	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/datadog"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/hosted"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/loadwatcherclient"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/metricsserver"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/signalfx"
)

// Open returns the source that a valid spec names. access says how to reach its server; metrics-server is read with the
// KubeConfig of the cluster instead.
func Open(ctx context.Context, cluster source.Cluster, spec config.LoadSpec, access Access, c clock.PassiveClock,
) (source.Source, error) {
	provider, queries := spec.MetricProvider, config.LoadQueries{}
	if spec.WatcherAddress == "" && provider.Type == config.KubernetesMetricsServer {
		return metricsserver.New(cluster.KubeConfig, cluster.Nodes, provider.Timeout.Duration)
	}
	if provider.Queries != nil {
		queries = *provider.Queries
	}
	address, client, err := access.Reach(ctx, spec, cmp.Or(spec.WatcherAddress, provider.Address), clientConfigOf(spec))
	service := hosted.Config{
		Address: address, Config: client, ClusterName: provider.ClusterName, HostNameSuffix: provider.HostNameSuffix,
		Dialect: string(provider.Dialect), CPUQuery: queries.CPU, MemoryQuery: queries.Memory,
	}
	switch {
	case err != nil:
		return nil, err
	case spec.WatcherAddress != "":
		return loadwatcherclient.New(loadwatcherclient.Config{Address: address, Config: client}, cluster.Nodes)
	case provider.Type == config.Prometheus:
		return prometheus.New(prometheus.Config{
			Address: address, Config: client, Dialect: promql.Dialect(provider.Dialect), NodeLabels: provider.NodeLabels,
			Selector: provider.Selector, CPUQuery: queries.CPU, MemoryQuery: queries.Memory,
		}, cluster.Nodes, c)
	case provider.Type == config.SignalFx:
		return signalfx.New(service, cluster.Nodes, c)
	case provider.Type == config.Datadog:
		return datadog.New(service, cluster.Nodes, c)
	}
	return nil, fmt.Errorf("metricProvider.type: %q is not supported", provider.Type)
}

// OpenPods returns the source of pod usage for a valid spec. That is its Prometheus, unless PodsFromMetricsServer is set, or else
// metrics-server: the other sources do not measure pods. Prometheus is reached through access.
func OpenPods(ctx context.Context, cluster source.Cluster, spec config.LoadSpec, access Access) (source.PodSource, error) {
	if !spec.ReadsPodsFromPrometheus() {
		return metricsserver.NewPodSource(cluster.KubeConfig)
	}
	address, client, err := access.Reach(ctx, spec, spec.MetricProvider.Address, clientConfigOf(spec))
	if err != nil {
		return nil, err
	}
	return prometheus.NewPodSource(prometheus.Config{Address: address, Config: client}, cluster.Pods)
}

func clientConfigOf(spec config.LoadSpec) httpclient.Config {
	provider := spec.MetricProvider
	client := httpclient.Config{
		BearerToken: string(provider.Token), BearerTokenFile: provider.TokenFile, CAFile: provider.CAFile,
		HTTPConfigFile: provider.HTTPConfigFile, InsecureSkipVerify: provider.InsecureSkipVerify, Timeout: provider.Timeout.Duration,
	}
	if spec.WatcherAddress == "" { // a load-watcher service takes a token alone
		client.Key, client.KeyFile = string(provider.ApplicationKey), provider.ApplicationKeyFile
	}
	return client
}

// AccountVariable is the environment variable that OpenShift's Secondary Scheduler Operator sets to true.
const AccountVariable = "ENABLE_OPENSHIFT_AUTH"

const podAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// Account is the service account that reads load where neither a token nor a tokenFile is configured. The zero value is
// none.
type Account struct {
	// Dir is a folder with the account's token, which is read for each request. Authorities in ca.crt and service-ca.crt are trusted
	// beside the system's roots. Each file may be absent.
	Dir string
}

// ServiceAccountFromEnvironment returns the pod's own account if ENABLE_OPENSHIFT_AUTH is true, and none if it is false or not set.
// It fails if it is neither.
func ServiceAccountFromEnvironment() (Account, error) {
	value := os.Getenv(AccountVariable)
	if value == "" {
		return Account{}, nil
	}
	enabled, err := strconv.ParseBool(value)
	switch {
	case err != nil:
		return Account{}, fmt.Errorf("env %s: %q is neither true nor false", AccountVariable, value)
	case !enabled:
		return Account{}, nil
	}
	return Account{Dir: podAccountDir}, nil
}

// Access is the way to a server.
type Access interface {
	// Reach returns the address and the settings to read the server at an address. The spec is valid, and cfg are its settings.
	Reach(ctx context.Context, spec config.LoadSpec, address string, cfg httpclient.Config) (string, httpclient.Config, error)
}

var _ Access = Account{}

// Reach implements Access: it reaches the server directly, with the account's credentials if the spec has no token. A hosted
// service never gets the account's credentials. Reach fails if it cannot read a file of the spec, or the account's token.
func (a Account) Reach(
	ctx context.Context, spec config.LoadSpec, address string, cfg httpclient.Config,
) (string, httpclient.Config, error) {
	if err := validation.ValidateCredentials(nil, &spec); err != nil {
		return "", cfg, err
	}
	if spec.IsHosted() {
		return address, cfg, nil
	}
	cfg, err := a.authenticate(ctx, address, cfg)
	return address, cfg, err
}

// authenticate returns cfg with the account's credentials if it has no token of its own. The account's token is only sent over
// TLS with a verified certificate. It fails if the token is needed and cannot be read.
func (a Account) authenticate(ctx context.Context, address string, cfg httpclient.Config) (httpclient.Config, error) {
	if a.Dir == "" || cfg.BearerToken != "" || cfg.BearerTokenFile != "" || cfg.HTTPConfigFile != "" {
		return cfg, nil
	}
	logger := klog.FromContext(ctx).WithValues("address", address)
	if !strings.HasPrefix(strings.ToLower(address), "https://") {
		logger.Info("Load is read without a token: " + AccountVariable + " is set, but over plain http the service account's token " +
			"could be read on the way; if the server wants it, write an https address")
		return cfg, nil
	}
	if cfg.InsecureSkipVerify {
		logger.Info("Load is read without a token: " + AccountVariable + " is set, but with insecureSkipVerify anyone could pose as " +
			"the server and take the service account's token. Set caFile instead of insecureSkipVerify, " +
			"or send the token with tokenFile: " + filepath.Join(a.Dir, "token"))
		return cfg, nil
	}
	cfg.BearerTokenFile = filepath.Join(a.Dir, "token")
	if _, err := boundedfile.ReadToken(cfg.BearerTokenFile); err != nil {
		return cfg, fmt.Errorf("%s is true and neither token nor tokenFile is configured for %s, but the pod has no token of its "+
			"own: %w; let the pod mount one (automountServiceAccountToken: true), configure tokenFile, or set %s to false",
			AccountVariable, address, err, AccountVariable)
	}
	if cfg.CAFile == "" {
		cfg.ExtraCAFiles = a.authorities()
	}
	logger.Info("Load is read with the service account's token", "tokenFile", cfg.BearerTokenFile, "extraCAFiles", cfg.ExtraCAFiles)
	return cfg, nil
}

func (a Account) authorities() []string {
	var files []string
	for _, name := range []string{"ca.crt", "service-ca.crt"} {
		file := filepath.Join(a.Dir, name)
		if _, err := boundedfile.ReadCA(file); !errors.Is(err, fs.ErrNotExist) {
			files = append(files, file)
		}
	}
	return files
}

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider/sources"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
)

// SourceOptions replace the settings with which the configuration reaches its source of load, for users outside the cluster.
type SourceOptions struct {
	Address string
	// The files are on this machine, and replace token, tokenFile, applicationKey, applicationKeyFile, caFile and httpConfigFile.
	TokenFile, ApplicationKeyFile, CAFile, HTTPConfigFile string
}

// Flags returns the flags that set the options, as arguments.
func (o SourceOptions) Flags() []string {
	all := [][2]string{{"--source-address", o.Address}}
	for _, file := range o.files(httpclient.Config{}) {
		all = append(all, [2]string{file.flag, file.local})
	}
	return flagsWith(all...)
}

// sourceFile is a credential or certificate of a source.
type sourceFile struct {
	// The configuration's field names the file configured. The flag replaces it with the file local, on this machine.
	field, flag       string
	configured, local string
}

func (o SourceOptions) files(cfg httpclient.Config) []sourceFile {
	return []sourceFile{
		{"tokenFile", "--source-token-file", cfg.BearerTokenFile, o.TokenFile},
		{"applicationKeyFile", "--source-application-key-file", cfg.KeyFile, o.ApplicationKeyFile},
		{"caFile", "--source-ca-file", cfg.CAFile, o.CAFile},
		{"httpConfigFile", "--source-http-config-file", cfg.HTTPConfigFile, o.HTTPConfigFile},
	}
}

// access reaches sources. Only in the scheduler's own container, it reads files of the configuration, and the pod's account.
// Otherwise a foreign configuration could send any file of this machine to any address.
type access struct {
	*Connection
	SourceOptions
	account      sources.Account
	filesAreHere bool
}

var _ sources.Access = &access{}

func (c *Connection) access(ctx context.Context, o Options) (*access, error) {
	if err := o.Source.Validate(); err != nil {
		return nil, err
	}
	a := &access{Connection: c, SourceOptions: o.Source, filesAreHere: o.FilesAreHere || c.own(ctx) != nil}
	if a.filesAreHere {
		var err error
		if a.account, err = sources.ServiceAccountFromEnvironment(); err != nil {
			return nil, err
		}
	}
	if o.Source.Address != "" {
		if servers := serversOf(o.Configuration); len(servers) > 1 {
			return nil, OptionErrorf(
				"--source-address: the configuration reads several servers, %s; write --config with a configuration that reads one",
				strings.Join(servers, ", "),
			)
		}
	}
	return a, nil
}

// Validate returns an *OptionError if the address is no URL or a file cannot be read.
func (o SourceOptions) Validate() error {
	if o.Address != "" && text.HTTPURL(o.Address) == nil {
		return OptionErrorf("--source-address: %q; write an http(s) URL, such as http://localhost:9090", o.Address)
	}
	if o.HTTPConfigFile != "" && o.TokenFile+o.ApplicationKeyFile+o.CAFile != "" {
		return OptionErrorf("--source-http-config-file: replaces the other files; leave them out")
	}
	for _, file := range o.files(httpclient.Config{}) {
		if file.local == "" {
			continue
		}
		f, err := os.Open(file.local)
		if err != nil {
			return OptionErrorf("%s: %w", file.flag, err)
		}
		_ = f.Close() // nothing was written
	}
	return nil
}

func (a *access) Reach(
	ctx context.Context, spec config.LoadSpec, address string, cfg httpclient.Config,
) (string, httpclient.Config, error) {
	var err error
	switch {
	case a.SourceOptions != SourceOptions{}:
		address, cfg, err = a.replace(address, cfg)
	case a.filesAreHere:
		return a.account.Reach(ctx, spec, address, cfg)
	case a.InPod:
		err = a.checkFiles(cfg)
	default:
		err = cmp.Or(a.forward(address), a.checkFiles(cfg))
	}
	if err == nil && !a.filesAreHere && spec.IsHosted() {
		err = missing(spec.MetricProvider.Type, cfg)
	}
	return address, cfg, err
}

// forward returns an ErrNotHere that says how to forward a port, if the address is that of a Service.
func (a *access) forward(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("parse the address: %w", err)
	}
	namespace, name, ok := ServiceOf(u.Hostname())
	if !ok {
		return nil
	}
	forward := Kubectl("-n", namespace, "port-forward", "svc/"+name, "9090:"+text.PortOf(u)).For(a.Chosen)
	return text.WithText(ErrNotHere, fmt.Sprintf("%s is a Service, which only pods of the cluster reach; run %s, and write "+
		"--source-address %s://localhost:9090%s", u.Host, forward, u.Scheme, u.EscapedPath()))
}

func (a *access) replace(address string, cfg httpclient.Config) (string, httpclient.Config, error) {
	if a.Address != "" {
		local := text.HTTPURL(a.Address).Hostname()
		if u, err := url.Parse(address); err == nil && (local == "localhost" || net.ParseIP(local).IsLoopback()) {
			cfg.ServerName = u.Hostname() // the certificate behind a port-forward has the server's name
		}
		address = a.Address
	}
	plain := strings.HasPrefix(strings.ToLower(address), "http://")
	if plain {
		cfg.CAFile = "" // it has no effect
	}
	err := a.checkFiles(cfg)
	if a.TokenFile != "" {
		cfg.BearerToken, cfg.BearerTokenFile = "", a.TokenFile
	}
	if a.ApplicationKeyFile != "" {
		cfg.Key, cfg.KeyFile = "", a.ApplicationKeyFile
	}
	if a.CAFile != "" && !plain {
		cfg.CAFile, cfg.InsecureSkipVerify = a.CAFile, false
	}
	if a.HTTPConfigFile != "" {
		cfg = httpclient.Config{HTTPConfigFile: a.HTTPConfigFile, ServerName: cfg.ServerName, Timeout: cfg.Timeout}
	}
	return address, cfg, err
}

// ErrNotHere is the error of a server, or a file, that this machine does not have and the scheduler's pod has.
var ErrNotHere = errors.New("it is only in the cluster")

// checkFiles returns an ErrNotHere for each file that the settings name and no option replaces.
func (a *access) checkFiles(cfg httpclient.Config) error {
	var errs []error
	for _, file := range a.files(cfg) {
		if file.configured != "" && file.local == "" && !a.filesAreHere {
			errs = append(errs, text.WithText(ErrNotHere, fmt.Sprintf(
				"%s %s is a file of the scheduler's pod; write %s FILE", file.field, file.configured, file.flag)))
		}
	}
	return errors.Join(errs...)
}

func missing(provider config.MetricProviderType, cfg httpclient.Config) error {
	const needed = "%s: %s needs it: set it; or, if the scheduler's pod has it in %s, write %s FILE"
	var errs []error
	if cfg.BearerToken == "" && cfg.BearerTokenFile == "" {
		errs = append(errs, fmt.Errorf(needed, "tokenFile", provider, config.TokenVariable, "--source-token-file"))
	}
	if provider == config.Datadog && cfg.Key == "" && cfg.KeyFile == "" {
		errs = append(errs, fmt.Errorf(needed, "applicationKeyFile", provider, config.ApplicationKeyVariable,
			"--source-application-key-file"))
	}
	return errors.Join(errs...)
}

// ServiceOf returns the Service that a host name such as prometheus.monitoring.svc names.
func ServiceOf(host string) (namespace, name string, ok bool) {
	if labels := strings.Split(strings.TrimSuffix(host, "."), "."); len(labels) >= 3 && labels[2] == "svc" {
		return labels[1], labels[0], true
	}
	return "", "", false
}

func serversOf(configuration *schedulerconfig.KubeSchedulerConfiguration) []string {
	servers := sets.New[string]()
	for _, request := range plugins.LoadRequests(configuration) {
		servers.Insert(addressOf(request.Spec))
	}
	return sets.List(servers.Delete(""))
}

// addressOf returns the address of the server that spec names; empty for metrics-server.
func addressOf(spec config.LoadSpec) string {
	return cmp.Or(spec.WatcherAddress, spec.MetricProvider.Address)
}

// Aggregation is the route of metrics-server, which has no address.
const Aggregation = "through the API server's aggregation of metrics.k8s.io"

func (a *access) routeOf(spec config.LoadSpec) (route, address string) {
	address = addressOf(spec)
	switch {
	case a.Address != "" && (address != "" || spec.IsHosted()):
		return "at " + a.Address, a.Address
	case address == "" && !spec.IsHosted():
		return Aggregation, ""
	}
	return "directly", address
}

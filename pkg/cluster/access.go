package cluster

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// access reaches sources.
//   - Outside the cluster, it reaches a Service through the API server's proxy, with the user's credentials. It sends no credential
//     of the source, because the API server would use it.
//   - Only in the scheduler's own container, it reads files of the configuration, and the pod's account. Otherwise a foreign
//     configuration could send any file of this machine to any address.
type access struct {
	*Connection
	SourceOptions
	account      sources.Account
	filesAreHere bool
	// services are the namespaces and names of Services, by cluster IP and by name.namespace.
	services    map[string][2]string
	servicesErr error
}

var _ sources.Access = &access{}

func (c *Connection) access(ctx context.Context, o Options) (*access, error) {
	if err := o.Source.Validate(); err != nil {
		return nil, err
	}
	a := &access{
		Connection: c, SourceOptions: o.Source, filesAreHere: o.FilesAreHere || c.own(ctx) != nil, services: map[string][2]string{},
	}
	if a.filesAreHere {
		var err error
		if a.account, err = sources.ServiceAccountFromEnvironment(); err != nil {
			return nil, err
		}
	}
	for _, object := range o.Objects {
		if service, ok := object.(*corev1.Service); ok {
			a.addService(service)
		}
	}
	if len(a.services) == 0 && !c.InPod { // not every command lists Services
		services, err := c.Client.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		a.servicesErr = err
		for i := 0; err == nil && i < len(services.Items); i++ {
			a.addService(&services.Items[i])
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

func (a *access) addService(service *corev1.Service) {
	for _, host := range slices.Concat(service.Spec.ClusterIPs, []string{service.Name + "." + service.Namespace}) {
		a.services[host] = [2]string{service.Namespace, service.Name}
	}
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
	address, cfg, err := a.reach(ctx, spec, address, cfg)
	if err == nil && !a.filesAreHere && spec.IsHosted() && cfg.Transport == nil {
		err = missing(spec.MetricProvider.Type, cfg)
	}
	return address, cfg, err
}

func (a *access) reach(
	ctx context.Context, spec config.LoadSpec, address string, cfg httpclient.Config,
) (string, httpclient.Config, error) {
	switch {
	case a.replaced():
		return a.replace(address, cfg)
	case a.filesAreHere:
		return a.account.Reach(ctx, spec, address, cfg)
	case a.InPod:
		return address, cfg, a.checkFiles(cfg)
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", cfg, fmt.Errorf("parse the address: %w", err)
	}
	if path := a.proxyPath(u); path != "" {
		proxy := &serviceProxy{next: a.http.Transport, proxy: a.server.JoinPath(path), apiServer: a.server, server: u}
		return address, httpclient.Config{Transport: proxy, Timeout: cfg.Timeout}, nil
	}
	if a.servicesErr != nil && couldBeService(u.Hostname()) {
		return "", cfg, fmt.Errorf(
			"%s may be a Service of the cluster, and another server here: %w; write --source-address URL, or grant: %s", u.Host,
			a.servicesErr, a.Grant(ctx, "list", "", "services"))
	}
	return address, cfg, a.checkFiles(cfg)
}

// couldBeService reports whether an unknown host may be a Service: it is an IP, or a name without a domain.
func couldBeService(host string) bool {
	if ip := net.ParseIP(host); ip != nil {
		return !ip.IsLoopback()
	}
	return host != "localhost" && strings.Count(strings.TrimSuffix(host, "."), ".") < 2
}

func (a *access) replaced() bool { return a.SourceOptions != SourceOptions{} }

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

// ErrFileInPod is the error of a file that only the scheduler's pod has.
var ErrFileInPod = errors.New("is a file of the scheduler's pod")

// checkFiles returns an ErrFileInPod for each file that the settings name and no option replaces.
func (a *access) checkFiles(cfg httpclient.Config) error {
	var errs []error
	for _, file := range a.files(cfg) {
		if file.configured != "" && file.local == "" && !a.filesAreHere {
			errs = append(errs, fmt.Errorf("%s %s %w; write %s FILE", file.field, file.configured, ErrFileInPod, file.flag))
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

// Route is how a server is reached.
type Route int

// The routes. Replaced is by --source-address.
const (
	Direct Route = iota
	Replaced
	ServiceProxy
	Aggregation
)

func (r Route) String() string {
	return [...]string{
		"directly", "at the address of --source-address", "through the API server's proxy",
		"through the API server's aggregation of metrics.k8s.io",
	}[r]
}

// routeOf returns how the spec's server is reached. Aggregation has no address, and only ServiceProxy a path in the API server.
func (a *access) routeOf(spec config.LoadSpec) (route Route, address, path string) {
	address = addressOf(spec)
	switch {
	case a.Address != "" && (address != "" || spec.IsHosted()):
		return Replaced, a.Address, ""
	case address == "" && !spec.IsHosted():
		return Aggregation, "", ""
	}
	if u, err := url.Parse(address); err == nil && !a.replaced() && !a.InPod {
		if path = a.proxyPath(u); path != "" {
			return ServiceProxy, address, path
		}
	}
	return Direct, address, ""
}

// proxyPath returns the path of the API server's proxy to the server; empty if the server is no Service.
func (a *access) proxyPath(server *url.URL) string {
	namespace, name, ok := ServiceOf(server.Hostname())
	if service := a.services[strings.TrimSuffix(server.Hostname(), ".")]; !ok {
		namespace, name = service[0], service[1]
	}
	if name == "" {
		return ""
	}
	name = server.Scheme + ":" + name + ":" + text.PortOf(server)
	return (&url.URL{}).JoinPath("/api/v1/namespaces", namespace, "services", name, "proxy").Path
}

// explain adds advice to an error of a source that is read through the proxy, and refuses.
func (a *access) explain(spec config.LoadSpec, err error) error {
	refused, ok := errors.AsType[*httpclient.StatusError](err)
	route, _, _ := a.routeOf(spec)
	if !ok || route != ServiceProxy || refused.Code != http.StatusUnauthorized && refused.Code != http.StatusForbidden {
		return err
	}
	return fmt.Errorf("%w; the API server's proxy needs permission to get services/proxy, and passes no token of the source: "+
		"write --source-address URL, or run this in the scheduler's pod", err)
}

// StatusOf returns the Status that an API server responded with; nil for another server's response.
func StatusOf(err *httpclient.StatusError) *metav1.Status {
	var status metav1.Status
	if json.Unmarshal(err.Body, &status) != nil || status.Kind != "Status" {
		return nil
	}
	return &status
}

// serviceProxy sends the requests for a server through the API server's proxy to its Service.
type serviceProxy struct {
	next                     http.RoundTripper
	proxy, apiServer, server *url.URL
}

func (t *serviceProxy) RoundTrip(r *http.Request) (*http.Response, error) {
	if !httpclient.SameOrigin(r.URL, t.server) {
		closeBody(r)
		return nil, errors.New("redirected to another server, which is not reached through the API server's proxy")
	}
	sent := r.Clone(r.Context())
	sent.URL = t.proxy.JoinPath(r.URL.EscapedPath())
	sent.URL.RawQuery = r.URL.RawQuery
	sent.Host = ""
	// The API server would use these headers itself.
	for _, name := range []string{"Authorization", "Cookie", "User-Agent"} {
		sent.Header.Del(name)
	}
	if r.Method == http.MethodPost {
		if err := moveFormToURL(sent); err != nil {
			return nil, err
		}
	}
	resp, err := t.next.RoundTrip(sent)
	if err != nil {
		return nil, err
	}
	resp.Request = r
	// The proxy rewrites redirects within the server to paths of its own.
	if location := resp.Header.Get("Location"); location != "" {
		if to, err := sent.URL.Parse(location); err == nil && httpclient.SameOrigin(to, t.apiServer) {
			back := *t.server
			back.Path, back.RawPath, back.RawQuery = strings.TrimPrefix(to.Path, t.proxy.Path), "", to.RawQuery
			resp.Header.Set("Location", back.String())
		}
	}
	return resp, nil
}

// moveFormToURL turns the POST of a query into a GET: a POST to the proxy needs permission to create.
func moveFormToURL(r *http.Request) error {
	const maxFormBytes = 1 << 20
	defer closeBody(r)
	form, err := io.ReadAll(io.LimitReader(r.Body, maxFormBytes+1))
	if err != nil {
		return err
	}
	if len(form) > maxFormBytes {
		return fmt.Errorf("the query has more than %d bytes", maxFormBytes)
	}
	r.Method, r.Body, r.GetBody, r.ContentLength = http.MethodGet, http.NoBody, nil, 0
	r.Header.Del("Content-Type")
	r.URL.RawQuery = string(bytes.TrimLeft(append([]byte(r.URL.RawQuery+"&"), form...), "&"))
	return nil
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close() // http.RoundTripper requires it
	}
}

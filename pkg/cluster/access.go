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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider/sources"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
)

// maxFormBytes bounds the form that moveFormToURL moves.
const maxFormBytes = 1 << 20

// SourceOptions replace the settings with which the configuration reaches its source of load, for users outside the cluster.
type SourceOptions struct {
	// Address is the URL at which this machine reaches the source.
	Address string
	// The files are on this machine, and replace token, tokenFile, applicationKey, applicationKeyFile and caFile.
	TokenFile, ApplicationKeyFile, CAFile string
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
	account sources.Account
	// filesAreHere reports whether the configuration's files are on this file system.
	filesAreHere bool
	// apiServer is the API server's address.
	apiServer *url.URL
	// services are by namespace/name, and by each of their cluster IPs.
	services map[string]*corev1.Service
	// servicesErr says why the Services are unknown.
	servicesErr error
}

var _ sources.Access = &access{}

func (c *Connection) access(ctx context.Context, o Options) (*access, error) {
	if err := o.Source.Validate(); err != nil {
		return nil, err
	}
	a := &access{
		Connection: c, SourceOptions: o.Source, filesAreHere: o.FilesAreHere || c.own(ctx) != nil, services: map[string]*corev1.Service{},
	}
	var err error
	if a.filesAreHere {
		if a.account, err = sources.ServiceAccountFromEnvironment(); err != nil {
			return nil, err
		}
	}
	if a.apiServer, _, err = rest.DefaultServerUrlFor(c.KubeConfig); err != nil {
		return nil, fmt.Errorf("address of the API server: %w", err)
	}
	a.apiServer.Path = "/" + strings.Trim(a.apiServer.Path, "/") // JoinPath makes a relative path of an empty one
	for _, object := range o.Objects {
		a.addService(object)
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

// addService adds the object if it is a Service.
func (a *access) addService(object runtime.Object) {
	service, ok := object.(*corev1.Service)
	if !ok {
		return
	}
	a.services[service.Namespace+"/"+service.Name] = service
	for _, ip := range service.Spec.ClusterIPs {
		a.services[ip] = service
	}
}

// Validate returns an *OptionError if the address is no URL or a file cannot be read.
func (o SourceOptions) Validate() error {
	if o.Address != "" && text.HTTPURL(o.Address) == nil {
		return OptionErrorf("--source-address: %q; write an http(s) URL, such as http://localhost:9090", o.Address)
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

// Reach implements sources.Access.
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
	if service := a.serviceOf(u.Hostname()); service != nil {
		proxy := &serviceProxy{next: a.http.Transport, apiServer: a.apiServer, server: u, service: *service}
		return address, httpclient.Config{Transport: proxy, Timeout: cfg.Timeout}, nil
	}
	if a.servicesErr != nil && couldBeService(u.Hostname()) {
		return "", cfg, fmt.Errorf(
			"%s may be a Service of the cluster, and another server here: %w; write --source-address URL, or grant: %s", u.Host,
			a.servicesErr, a.Grant(ctx, "list", "", "services"),
		)
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

// replace returns the address and the settings as the options replace them.
func (a *access) replace(address string, cfg httpclient.Config) (string, httpclient.Config, error) {
	if a.Address != "" {
		if isLoopback(a.Address) { // such as a port-forward; the certificate has the server's name
			if u, err := url.Parse(address); err == nil {
				cfg.ServerName = u.Hostname()
			}
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
	return address, cfg, err
}

func isLoopback(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
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

// missing returns an error if SignalFx or Datadog would be read without credentials.
func missing(provider config.MetricProviderType, cfg httpclient.Config) error {
	var errs []error
	need := func(set bool, field, what, variable, flag string) {
		if !set {
			errs = append(errs, fmt.Errorf("%s: %s needs %s: set it; or, if the scheduler's pod has it in %s, write %s FILE",
				field, provider, what, variable, flag))
		}
	}
	need(cfg.BearerToken != "" || cfg.BearerTokenFile != "", "tokenFile", "a token", config.TokenVariable, "--source-token-file")
	need(provider != config.Datadog || cfg.Key != "" || cfg.KeyFile != "", "applicationKeyFile", "an application key",
		config.ApplicationKeyVariable, "--source-application-key-file")
	return errors.Join(errs...)
}

// ServiceOf returns the Service that a host name such as prometheus.monitoring.svc names.
func ServiceOf(host string) (namespace, name string, ok bool) {
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	if len(labels) < 3 || labels[2] != "svc" {
		return "", "", false
	}
	return labels[1], labels[0], true
}

// serviceOf returns the namespace and name of the host's Service; nil if there is none. It knows short names and IPs of Services.
func (a *access) serviceOf(host string) *[2]string {
	if namespace, name, ok := ServiceOf(host); ok {
		return &[2]string{namespace, name}
	}
	name, namespace, _ := strings.Cut(strings.TrimSuffix(host, "."), ".")
	for _, key := range []string{host, namespace + "/" + name} {
		if service, ok := a.services[key]; ok {
			return &[2]string{service.Namespace, service.Name}
		}
	}
	return nil
}

// serversOf returns the distinct addresses of the sources that the configuration's plugins read.
func serversOf(configuration *schedulerconfig.KubeSchedulerConfiguration) []string {
	var servers []string
	for _, request := range plugins.LoadRequests(configuration) {
		servers = append(servers, addressOf(request.Spec))
	}
	slices.Sort(servers)
	return slices.DeleteFunc(slices.Compact(servers), func(address string) bool { return address == "" })
}

// addressOf returns the address of the server that spec names; empty for metrics-server.
func addressOf(spec config.LoadSpec) string {
	return cmp.Or(spec.WatcherAddress, spec.MetricProvider.Address)
}

// Route is how a server is reached.
type Route int

const (
	// Direct is a connection to the configured address.
	Direct Route = iota
	// Replaced is a connection to the address of --source-address.
	Replaced
	// ServiceProxy is the API server's proxy to a Service.
	ServiceProxy
	// Aggregation is the API server's aggregation of metrics.k8s.io.
	Aggregation
)

// String completes the sentence "It is reached …".
func (r Route) String() string {
	return [...]string{
		"directly", "at the address of --source-address", "through the API server's proxy",
		"through the API server's aggregation of metrics.k8s.io",
	}[r]
}

// routeOf returns how, and at which address, the spec's server is reached. Aggregation has no address.
func (a *access) routeOf(spec config.LoadSpec) (Route, string) {
	address := addressOf(spec)
	switch {
	case a.Address != "" && (address != "" || spec.IsHosted()):
		return Replaced, a.Address
	case address == "" && !spec.IsHosted():
		return Aggregation, ""
	case a.proxied(address):
		return ServiceProxy, address
	}
	return Direct, address
}

// proxyOf returns the path of the proxy to the Service at the address. It is empty for another route.
func (a *access) proxyOf(route Route, address string) string {
	u, err := url.Parse(address)
	if err != nil || route != ServiceProxy {
		return ""
	}
	return proxyPath(u, *a.serviceOf(u.Hostname()))
}

// proxyPath returns the path of the API server's proxy to a Service, a namespace and a name.
func proxyPath(server *url.URL, service [2]string) string {
	return (&url.URL{}).JoinPath("/api/v1/namespaces", service[0], "services", proxyName(server, service[1]), "proxy").Path
}

func (a *access) proxied(address string) bool {
	u, err := url.Parse(address)
	return err == nil && !a.replaced() && !a.InPod && a.serviceOf(u.Hostname()) != nil
}

// explain adds advice to an error of a source that is read through the proxy.
func (a *access) explain(spec config.LoadSpec, err error) error {
	address := addressOf(spec)
	refused, ok := errors.AsType[*httpclient.StatusError](err)
	if !ok || !a.proxied(address) {
		return err
	}
	u, _ := url.Parse(address) // proxied has parsed it
	service := a.serviceOf(u.Hostname())
	if refused.Code != http.StatusUnauthorized && refused.Code != http.StatusForbidden {
		return err
	}
	if status := StatusOf(refused); status != nil && status.Details != nil && status.Details.Kind == "services" {
		grant := grantObject("plimsoll-source", &Permission{
			Resource: "services/proxy", Verbs: []string{"get"}, Namespace: service[0], Name: proxyName(u, service[1]),
		}, UnknownUser).For(a.Chosen)
		return fmt.Errorf("%w; you lack permission for the API server's proxy: write --source-address, or grant it to USER: %s",
			err, grant)
	}
	return fmt.Errorf("%w; the server asks for a token, which cannot pass the API server's proxy: "+
		"run %s, and write --source-address %s://localhost:9090 --source-token-file FILE",
		err, Kubectl("-n", service[0], "port-forward", "svc/"+service[1], "9090:"+text.PortOf(u)).For(a.Chosen), u.Scheme)
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
	next      http.RoundTripper
	apiServer *url.URL
	// server is the address of the server, service the namespace and the name of its Service.
	server  *url.URL
	service [2]string
}

// RoundTrip implements http.RoundTripper.
func (t *serviceProxy) RoundTrip(r *http.Request) (*http.Response, error) {
	if !httpclient.SameOrigin(r.URL, t.server) {
		closeBody(r)
		return nil, errors.New("redirected to another server, which is not reached through the API server's proxy")
	}
	sent := r.Clone(r.Context())
	proxy := t.apiServer.JoinPath(proxyPath(t.server, t.service))
	sent.URL = proxy.JoinPath(r.URL.EscapedPath())
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
			back.Path, back.RawPath, back.RawQuery = strings.TrimPrefix(to.Path, proxy.Path), "", to.RawQuery
			resp.Header.Set("Location", back.String())
		}
	}
	return resp, nil
}

// moveFormToURL turns the POST of a query into a GET: a POST to the proxy needs permission to create.
func moveFormToURL(r *http.Request) error {
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

// proxyName returns the service's name in a path of the proxy: with scheme and port.
func proxyName(server *url.URL, service string) string {
	return server.Scheme + ":" + service + ":" + text.PortOf(server)
}

// Package cluster reads a running cluster: the configuration of its scheduler, the objects that decisions depend on, and load.
// A simulation of them decides as the scheduler would now. Nothing is ever written to the cluster.
package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
)

// Connection is a connection to the API server. Its clients refuse requests that could change the cluster, with ErrReadOnly.
type Connection struct {
	// KubeConfig makes further clients, which refuse the same requests.
	KubeConfig *rest.Config
	Client     kubernetes.Interface
	// Namespace is the user's: -n, else the context's, else "default".
	Namespace string
	// Chosen says how the user chose the cluster. It is only for commands that are printed.
	Chosen Chosen
	// InPod reports whether the program runs in a pod of the cluster, so that Services' names resolve.
	InPod bool

	http *http.Client
	// server is the API server's address, whose path begins with a slash.
	server *url.URL
	// held returns the objects of a kind that need not be listed; nil for other kinds. It may be nil.
	held          func(kind string) []runtime.Object
	namespaceFile string
}

// Connect returns a connection to the API server that the given kubeconfig names, and sends nothing. inPod reports whether the
// program runs in a pod of the cluster.
func Connect(kubeConfig *rest.Config, namespace string, inPod bool) (*Connection, error) {
	c := rest.CopyConfig(kubeConfig)
	server, _, err := rest.DefaultServerUrlFor(c)
	if err != nil {
		return nil, fmt.Errorf("address of the API server: %w", err)
	}
	server.Path = "/" + strings.Trim(server.Path, "/") // JoinPath makes a relative path of an empty one
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return readOnly{next: next, prefix: server.Path} })
	c.QPS = -1 // a few requests; priority and fairness of the API server are enough
	typed, client, err := newClient(c)
	if err != nil {
		return nil, err
	}
	return &Connection{
		KubeConfig: c, Client: typed, Namespace: namespace, InPod: inPod, http: client, server: server,
		namespaceFile: "/var/run/secrets/kubernetes.io/serviceaccount/namespace",
	}, nil
}

func newClient(c *rest.Config) (kubernetes.Interface, *http.Client, error) {
	client, err := httpclient.ForAPIServer(c)
	if err != nil {
		return nil, nil, err
	}
	typed, err := kubernetes.NewForConfigAndClient(c, client)
	return typed, client, err
}

// In returns a connection whose user works in the namespace.
func (c *Connection) In(namespace string) *Connection {
	in := *c
	in.Namespace = namespace
	return &in
}

// Holding returns a connection that uses the objects of held instead of listing their kinds. Callers must not change them.
func (c *Connection) Holding(held func(kind string) []runtime.Object) *Connection {
	holding := *c
	holding.held = held
	return &holding
}

// ErrReadOnly is the error of a request that could change the cluster. It was not sent.
var ErrReadOnly = errors.New("refused before it was sent, for this program only reads")

// readOnly sends requests that cannot change the cluster. The path of the API server's address is the prefix.
type readOnly struct {
	next   http.RoundTripper
	prefix string
}

func (t readOnly) RoundTrip(r *http.Request) (*http.Response, error) {
	if !t.reads(r) {
		if r.Body != nil {
			_ = r.Body.Close() // http.RoundTripper requires it
		}
		return nil, fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, ErrReadOnly)
	}
	if token, ok := r.Context().Value(forwardedToken{}).(string); ok { // here, because client-go logs the headers that it is passed
		r = r.Clone(r.Context())
		r.Header.Set(provider.TokenHeader, token)
	}
	return t.next.RoundTrip(r)
}

// forwardedToken is the key of a context's token for a pod behind the API server's proxy.
type forwardedToken struct{}

// reads reports whether a request only reads. A GET of a pod's exec, attach or portforward, or of a node's proxy, can run commands.
// A GET through the proxy of a service or pod counts as reading: schedulers and the shadow are read that way.
func (t readOnly) reads(r *http.Request) bool {
	path, ok := strings.CutPrefix(r.URL.Path, strings.TrimSuffix(t.prefix, "/"))
	if !ok || r.Header.Get("Upgrade") != "" {
		return false
	}
	// Parse the path as the API server does: with its RequestInfoFactory, and without the prefix.
	resolver := request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	info, err := resolver.NewRequestInfo(&http.Request{Method: r.Method, URL: &url.URL{Path: path, RawQuery: r.URL.RawQuery}})
	switch {
	case err != nil:
		return false
	case r.Method == http.MethodPost: // the API server stores nothing; that account may only read the scheduler's load
		review := info.APIGroup + "/" + info.Resource + "/" + info.Subresource
		return review == "authorization.k8s.io/selfsubjectaccessreviews/" || review == "authentication.k8s.io/selfsubjectreviews/" ||
			review == "/serviceaccounts/token" && strings.HasSuffix(info.Name, loadReaderSuffix)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		return false
	}
	switch info.Subresource {
	case "exec", "attach", "portforward":
		return false
	case "proxy":
		return info.Resource == "services" || info.Resource == "pods"
	}
	return info.Verb != "proxy" // of /api/v1/proxy/..., which only old API servers serve
}

// Server is the API server's version and clock.
type Server struct {
	GitVersion string
	// Skew is how far its clock is ahead of this machine's, within SkewResolution; 0 if SkewKnown is false.
	Skew      time.Duration
	SkewKnown bool
}

// SkewResolution bounds the error of Skew: half a second by the header Date, and half of a round trip of at most a second.
const SkewResolution = time.Second

// Server asks the API server for its version. The response has the time.
func (c *Connection) Server(ctx context.Context) (Server, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.server.JoinPath("version").String(), http.NoBody)
	if err != nil {
		return Server{}, err
	}
	sent := time.Now()
	resp, err := c.http.Do(req)
	if err != nil {
		return Server{}, fmt.Errorf("ask the API server: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // it has been read
	received := time.Now()
	const maxBytes = 64 << 10
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBytes))
	var info version.Info
	switch {
	case err == nil && resp.StatusCode != http.StatusOK:
		return Server{}, fmt.Errorf("the API server answers %s to GET /version: %s", resp.Status, text.Excerpt(string(body)))
	case err == nil:
		err = json.Unmarshal(body, &info)
	}
	if err != nil {
		return Server{}, fmt.Errorf("read the API server's version: %w", err)
	}
	server := Server{GitVersion: text.Excerpt(info.GitVersion)}
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		// The header Date, of some moment between sent and received, drops the fraction of a second: half a second on average.
		server.Skew, server.SkewKnown = date.Add(time.Second/2).Sub(sent.Add(received.Sub(sent)/2)), true
	}
	return server, nil
}

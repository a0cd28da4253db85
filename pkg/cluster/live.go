// Package cluster reads a running cluster: the configuration of its scheduler, the objects that decisions depend on, and load.
// A simulation of them decides as the scheduler would now. Nothing is ever written to the cluster.
package cluster

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Connection is a connection to the API server. Its clients refuse every request that could change the cluster, before it is sent;
// the error is ErrReadOnly.
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
	held func(kind string) []runtime.Object
	// namespaceFile has the namespace of the pod.
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
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, err
	}
	typed, err := kubernetes.NewForConfigAndClient(c, client)
	if err != nil {
		return nil, err
	}
	return &Connection{
		KubeConfig: c, Client: typed, Namespace: namespace, InPod: inPod, http: client, server: server,
		namespaceFile: "/var/run/secrets/kubernetes.io/serviceaccount/namespace",
	}, nil
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

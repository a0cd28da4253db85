package cluster

import (
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/cert"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// prometheusOf responds as a Prometheus whose recording rules measure node n1, and records the requests.
type prometheusOf struct {
	mu       sync.Mutex
	requests []*http.Request
	status   int
}

func (p *prometheusOf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = append(p.requests, r.Clone(r.Context()))
	if p.status != 0 {
		w.WriteHeader(p.status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w,
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"node":"n1"},"value":[1700000000,"0.25"]}]}}`)
}

func (p *prometheusOf) seen() []*http.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests)
}

func decodedOf(t *testing.T, content string) *schedulerconfig.KubeSchedulerConfiguration {
	t.Helper()
	c := &Configuration{Content: []byte(content)}
	check.OK(t, c.decode())
	return c.Decoded
}

// open opens a cluster of node n1 whose scheduler has the configuration.
func open(t *testing.T, c *Connection, fields string, o SourceOptions, objects ...runtime.Object) *Cluster {
	t.Helper()
	decoded := decodedOf(t, configurationOf(fields))
	return check.Value(c.Open(t.Context(), Options{Configuration: decoded, Objects: append(objects, node("n1")), Source: o}))(t)
}

const ownQueries = "queries: {cpu: 'own_cpu', memory: 'own_memory'}"

func TestOpen_ServiceFromOutside(t *testing.T) {
	const spec = "metricProvider: {type: Prometheus, address: 'https://thanos.monitoring.svc:9091/a%20b', token: hunter2, " + ownQueries + "}"
	s := newAPIServer(t)
	err := open(t, s.connect(t, false), spec, SourceOptions{}).Sources()[0].Err
	check.Error(t, err, "thanos.monitoring.svc:9091 is a Service", "run kubectl -n monitoring port-forward svc/thanos 9090:9091,",
		"--source-address https://localhost:9090/a%20b")
	if !errors.Is(err, ErrNotHere) {
		t.Errorf("%v is not ErrNotHere, so doctor calls it a fault of the server", err)
	}
}

func TestOpen_ReadsDirectly(t *testing.T) {
	p := &prometheusOf{}
	server := check.Serve(t, p)
	spec := func(fields string) string {
		return "metricProvider: {type: Prometheus, address: '" + server.URL + "', " + fields + ownQueries + "}"
	}
	token := check.File(t, "token", "of-a-file\n")
	for _, tt := range []struct {
		name, fields string
		inPod        bool
		// own is whether the container is the scheduler's.
		own     bool
		options SourceOptions
		want    string
		err     []string
		route   string
	}{
		{name: "outside the cluster, with a token", fields: "token: of-config, ", want: "Bearer of-config", route: "directly"},
		{
			name: "files of the configuration are those of the pod, also where this machine has them", fields: "tokenFile: " + token + ", ",
			err: []string{"tokenFile " + token, "--source-token-file FILE"}, route: "directly",
		},
		{name: "in the scheduler's pod they are read", fields: "tokenFile: " + token + ", ", inPod: true, own: true, want: "Bearer of-a-file", route: "directly"},
		{
			name: "in another pod they are not", fields: "tokenFile: " + token + ", ", inPod: true,
			err: []string{"tokenFile " + token, "--source-token-file FILE"}, route: "directly",
		},
		{name: "a flag replaces them", fields: "tokenFile: /absent, ", options: SourceOptions{TokenFile: token}, want: "Bearer of-a-file", route: "directly"},
		{
			name: "the HTTP configuration is one of the pod's", fields: "httpConfigFile: " + token + ", ",
			err: []string{"httpConfigFile " + token, "--source-http-config-file FILE"}, route: "directly",
		},
		{
			name: "a flag replaces the HTTP configuration", fields: "httpConfigFile: /absent, ",
			options: SourceOptions{HTTPConfigFile: check.File(t, "http.yaml", "bearer_token: of-http")}, want: "Bearer of-http", route: "directly",
		},
		{name: "a flag replaces the address", options: SourceOptions{Address: server.URL + "/other"}, route: "at " + server.URL + "/other"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := len(p.seen())
			c := newAPIServer(t).connect(t, tt.inPod)
			if tt.own {
				c = ownPod(t, token)
			}
			cluster := open(t, c, spec(tt.fields), tt.options)
			source := cluster.Sources()[0]
			check.Equal(t, "route", tt.route, source.Route)
			if tt.err != nil {
				check.Error(t, source.Err, tt.err...)
				return
			}
			check.OK(t, source.Err)
			for _, r := range p.seen()[before:] {
				check.Equal(t, "Authorization", tt.want, r.Header.Get("Authorization"))
				if prefix := strings.HasPrefix(r.URL.Path, "/other"); prefix != (tt.options.Address != "") {
					t.Errorf("path %s", r.URL.Path)
				}
			}
		})
	}
}

func TestSourceOptions_HTTPConfigFileIsAlone(t *testing.T) {
	check.Error(t, SourceOptions{HTTPConfigFile: "/h", CAFile: "/ca"}.Validate(), "--source-http-config-file: replaces the other files")
}

func TestOpen_PortForwardHasTheServersCertificate(t *testing.T) {
	certificate, key, err := cert.GenerateSelfSignedCertKey("thanos.monitoring.svc", nil, nil)
	check.OK(t, err)
	pair := check.Value(tls.X509KeyPair(certificate, key))(t)
	p := &prometheusOf{}
	server := httptest.NewUnstartedServer(p)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // a handshake fails on purpose
	server.StartTLS()
	t.Cleanup(server.Close)
	options := SourceOptions{
		Address: server.URL, TokenFile: check.File(t, "token", "of-a-file"), CAFile: check.File(t, "ca.crt", string(certificate)),
	}
	spec := func(host string) string {
		return "metricProvider: {type: Prometheus, address: 'https://" + host + ":9091', tokenFile: /absent/token, insecureSkipVerify: true, " + ownQueries + "}"
	}
	c := newAPIServer(t).connect(t, false)
	check.OK(t, open(t, c, spec("thanos.monitoring.svc"), options).Sources()[0].Err)
	if seen := p.seen(); len(seen) == 0 || seen[0].Header.Get("Authorization") != "Bearer of-a-file" {
		t.Errorf("seen %v", seen)
	}
	// Whatever the configuration says, with a CA file the certificate is verified: a token is sent.
	check.Error(t, open(t, c, spec("other.monitoring.svc"), options).Sources()[0].Err, "x509: ")
}

// twoServers returns a configuration whose second plugin reads the server a. The first has the server b in its arguments, and is in a
// list of filters: enabled or disabled.
func twoServers(t *testing.T, list string) *schedulerconfig.KubeSchedulerConfiguration {
	t.Helper()
	return decodedOf(t, strings.Replace(configurationOf("metricProvider: {type: Prometheus, address: 'http://a'}"), "  pluginConfig:\n",
		"    filter: {"+list+`: [{name: LoadThreshold}]}
  pluginConfig:
  - {name: LoadThreshold, args: {metricProvider: {type: Prometheus, address: 'http://b'}, thresholds: {cpu: 80}}}
`, 1))
}

func TestOpen_OneAddressForSeveralServers(t *testing.T) {
	decoded := twoServers(t, "enabled")
	c := newAPIServer(t).connect(t, false)
	_, err := c.Open(t.Context(), Options{Configuration: decoded, Source: SourceOptions{Address: "http://localhost:9090"}})
	check.Error(t, err, "--source-address", "http://a", "http://b")
	_, err = c.Open(t.Context(), Options{Configuration: decoded, Source: SourceOptions{Address: "localhost:9090"}})
	check.Error(t, err, "--source-address", `"localhost:9090"`, "http://localhost:9090")
	// A plugin that is not enabled reads no server.
	_, err = c.Open(t.Context(), Options{Configuration: twoServers(t, "disabled"), Source: SourceOptions{Address: "http://127.0.0.1:1"}})
	check.OK(t, err)
}

func TestOpen_Extenders(t *testing.T) {
	decoded := decodedOf(t, configurationOf("metricProvider: {type: Prometheus, address: 'http://127.0.0.1:1'}")+
		"extenders: [{urlPrefix: 'http://e', filterVerb: filter}]\n")
	c := newAPIServer(t).connect(t, false)
	o := Options{Configuration: decoded, Objects: []runtime.Object{node("n1")}}
	_, err := c.Open(t.Context(), o)
	check.Error(t, err, "extenders")
	o.IgnoreExtenders = true
	check.Value(c.Open(t.Context(), o))(t)
	if len(decoded.Extenders) != 1 {
		t.Error("the configuration was changed")
	}
}

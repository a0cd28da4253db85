package cluster

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// prometheusService is listed by commands that have no Services among their objects.
func prometheusService() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "monitoring", Name: "prometheus"}, Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.0.0.9"}},
	}
}

const ownQueries = "queries: {cpu: 'own_cpu', memory: 'own_memory'}"

func TestOpen_ReadsAServiceThroughTheProxy(t *testing.T) {
	for _, tt := range []struct{ address, service, path string }{
		{"http://prometheus.monitoring.svc:9090/prefix", "monitoring/http:prometheus:9090", "/clusters/one"},
		{"http://prometheus.monitoring.svc:9090", "monitoring/http:prometheus:9090", ""},
		{"https://prometheus.monitoring.svc.cluster.local", "monitoring/https:prometheus:443", ""},
		{"http://prometheus.monitoring", "monitoring/http:prometheus:80", ""},
		{"http://10.0.0.9:9090", "monitoring/http:prometheus:9090", ""},
	} {
		t.Run(tt.address, func(t *testing.T) {
			s, p := newAPIServer(t, prometheusService()), &prometheusOf{}
			s.path = tt.path
			s.services[tt.service] = p
			cluster := open(t, s.connect(t, false),
				"metricProvider: {type: Prometheus, address: '"+tt.address+"', token: token-of-the-source, "+ownQueries+"}", SourceOptions{})
			source := cluster.Sources()[0]
			if source.Err != nil || source.Route != ServiceProxy || source.Label != "Prometheus" || source.Took <= 0 {
				t.Errorf("source %+v", source)
			}
			if source.Spec.MetricProvider.Address != tt.address {
				t.Errorf("spec %+v", source.Spec)
			}
			if len(p.seen()) == 0 {
				t.Error("the server was not asked")
			}
			for _, r := range s.seen() {
				check.Equal(t, fmt.Sprint(r.URL, ": Authorization"), []string{"Bearer " + userToken}, r.Header.Values("Authorization"))
			}
			cluster.Refresh(t.Context())
			check.OK(t, cluster.Sources()[0].Err)
		})
	}
}

func TestOpen_LongQueriesAreReadOnlyToo(t *testing.T) {
	s, p := newAPIServer(t), &prometheusOf{}
	s.services["monitoring/http:prometheus:80"] = p
	long := "own_cpu{" + strings.Repeat(`a!="x",`, 1500) + `b="c"}`
	cluster := open(t, s.connect(t, false),
		"metricProvider: {type: Prometheus, address: 'http://prometheus.monitoring.svc', queries: {cpu: '"+long+"', memory: own_memory}}",
		SourceOptions{})
	check.OK(t, cluster.Sources()[0].Err)
	found := false
	for _, r := range p.seen() {
		if r.Method != http.MethodGet {
			t.Errorf("%s %.80s", r.Method, r.URL)
		}
		found = found || r.URL.Query().Get("query") == long
	}
	if !found {
		t.Error("the query has not arrived")
	}
}

func TestOpen_AdviceWhereTheProxyIsNoWay(t *testing.T) {
	const spec = "metricProvider: {type: Prometheus, address: 'https://thanos.monitoring.svc:9091', tokenFile: /absent/token, caFile: /absent/ca, " + ownQueries + "}"
	t.Run("the user may not use it", func(t *testing.T) {
		s := newAPIServer(t)
		s.forbidden = []string{"services/proxy"}
		err := open(t, s.connect(t, false), spec, SourceOptions{}).Sources()[0].Err
		check.Error(t, err, "needs permission to get services/proxy", "--source-address URL", "in the scheduler's pod")
	})
	t.Run("the server wants its token", func(t *testing.T) {
		s := newAPIServer(t)
		s.services["monitoring/https:thanos:9091"] = &prometheusOf{status: http.StatusUnauthorized}
		err := open(t, s.connect(t, false), spec, SourceOptions{}).Sources()[0].Err
		check.Error(t, err, "passes no token of the source", "--source-address URL", "in the scheduler's pod")
	})
	t.Run("there is no pod behind it", func(t *testing.T) {
		err := open(t, newAPIServer(t).connect(t, false), spec, SourceOptions{}).Sources()[0].Err
		check.Error(t, err, "no endpoints available for service")
	})
	for _, host := range []string{"10.255.255.1", "prometheus.monitoring", "prometheus"} { // another server may have the name here
		s := newAPIServer(t, prometheusService())
		s.forbidden = []string{"services"}
		err := open(t, s.connect(t, false), strings.Replace(spec, "thanos.monitoring.svc", host, 1), SourceOptions{}).Sources()[0].Err
		check.Error(t, err, host+":9091 may be a Service", "--source-address")
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
		route   Route
	}{
		{name: "outside the cluster, with a token", fields: "token: of-config, ", want: "Bearer of-config", route: Direct},
		{
			name: "files of the configuration are those of the pod, also where this machine has them", fields: "tokenFile: " + token + ", ",
			err: []string{"tokenFile " + token, "--source-token-file FILE"}, route: Direct,
		},
		{name: "in the scheduler's pod they are read", fields: "tokenFile: " + token + ", ", inPod: true, own: true, want: "Bearer of-a-file", route: Direct},
		{
			name: "in another pod they are not", fields: "tokenFile: " + token + ", ", inPod: true,
			err: []string{"tokenFile " + token, "--source-token-file FILE"}, route: Direct,
		},
		{name: "a flag replaces them", fields: "tokenFile: /absent, ", options: SourceOptions{TokenFile: token}, want: "Bearer of-a-file", route: Direct},
		{
			name: "the HTTP configuration is one of the pod's", fields: "httpConfigFile: " + token + ", ",
			err: []string{"httpConfigFile " + token, "--source-http-config-file FILE"}, route: Direct,
		},
		{
			name: "a flag replaces the HTTP configuration", fields: "httpConfigFile: /absent, ",
			options: SourceOptions{HTTPConfigFile: check.File(t, "http.yaml", "bearer_token: of-http")}, want: "Bearer of-http", route: Direct,
		},
		{name: "a flag replaces the address", options: SourceOptions{Address: server.URL + "/other"}, route: Replaced},
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

func TestServiceProxy_Redirects(t *testing.T) {
	s := newAPIServer(t)
	var mu sync.Mutex // the queries of a refresh are sent at once
	var paths []string
	s.services["monitoring/http:prometheus:80"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		paths = append(paths, r.URL.Path)
		mu.Unlock()
		switch r.URL.Path {
		case "/api/v1/query": // as the API server's proxy rewrites it
			http.Redirect(w, r, "/clusters/one/api/v1/namespaces/monitoring/services/http:prometheus:80/proxy/prefix/query?"+r.URL.RawQuery,
				http.StatusFound)
		case "/prefix/query":
			(&prometheusOf{}).ServeHTTP(w, r)
		}
	})
	const spec = "metricProvider: {type: Prometheus, address: 'http://prometheus.monitoring.svc', " + ownQueries + "}"
	if err := open(t, s.connect(t, false), spec, SourceOptions{}).Sources()[0].Err; err != nil {
		mu.Lock()
		t.Errorf("%v; the server saw %q", err, paths)
		mu.Unlock()
	}
	var elsewhere []string
	other := check.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		elsewhere = append(elsewhere, r.Header.Get("Authorization"))
		mu.Unlock()
	}))
	s.services["monitoring/http:prometheus:80"] = http.RedirectHandler(other.URL, http.StatusFound)
	check.Error(t, open(t, s.connect(t, false), spec, SourceOptions{}).Sources()[0].Err, "redirected to another server")
	mu.Lock()
	defer mu.Unlock()
	if len(elsewhere) > 0 {
		t.Errorf("another server was asked, with Authorization %q", elsewhere)
	}
}

func TestServiceProxy_DropsCredentials(t *testing.T) {
	s, p := newAPIServer(t), &prometheusOf{}
	s.services["monitoring/http:prometheus:80"] = p
	c := s.connect(t, false)
	server := check.Value(url.Parse("http://prometheus.monitoring.svc"))(t)
	apiServer := check.Value(url.Parse(s.URL + s.path))(t)
	client := http.Client{
		Transport: &serviceProxy{
			next: c.http.Transport, apiServer: apiServer, server: server,
			proxy: apiServer.JoinPath("/api/v1/namespaces/monitoring/services/http:prometheus:80/proxy"),
		},
	}
	r := check.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, server.String()+"/a", http.NoBody))(t)
	for name, value := range map[string]string{"Authorization": "Bearer token-of-the-source", "Cookie": "session=1", "User-Agent": "plimsoll", "Accept": "a/b"} {
		r.Header.Set(name, value)
	}
	resp := check.Value(client.Do(r))(t)
	_ = resp.Body.Close()
	seen := s.seen()[0].Header
	for name, want := range map[string]string{"Authorization": "Bearer " + userToken, "Cookie": "", "Accept": "a/b"} {
		check.Equal(t, fmt.Sprintf("the API server sees %s", name), want, seen.Get(name))
	}
	if seen.Get("User-Agent") == "plimsoll" {
		t.Error("the API server is not told by what program it is asked")
	}
}

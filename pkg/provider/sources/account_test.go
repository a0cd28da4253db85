package sources

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// server records the Authorization headers of requests.
type server struct {
	*httptest.Server
	mu   sync.Mutex
	seen []string
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, r.Header.Get("Authorization"))
	w.WriteHeader(http.StatusTeapot)
}

// last returns the Authorization headers since the last call, without repetitions.
func (s *server) last() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := slices.Compact(s.seen)
	s.seen = nil
	return seen
}

// newServer speaks TLS with a certificate that no system trusts, or plain http.
func newServer(t *testing.T, tls bool) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes fail on purpose
	if tls {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

func write(t *testing.T, dir, name, content string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	check.OK(t, os.WriteFile(file, []byte(content), 0o600))
	return file
}

// certificateOf returns the certificate of the server, which is self-signed, in PEM.
func certificateOf(s *server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

func oneNode(t *testing.T) corelisters.NodeLister {
	t.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	check.OK(t, indexer.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}))
	return corelisters.NewNodeLister(indexer)
}

// specs returns the two kinds of specs that read an address.
func specs(address string, provider config.MetricProviderSpec) map[string]config.LoadSpec {
	provider.Timeout.Duration, provider.NodeLabels = time.Minute, []string{"node"}
	watcher := config.LoadSpec{WatcherAddress: address, MetricProvider: provider}
	provider.Type, provider.Address, provider.Dialect = config.Prometheus, address, config.DialectNodeExporter
	return map[string]config.LoadSpec{"load-watcher": watcher, "Prometheus": {MetricProvider: provider}}
}

// read reads the source once and returns the error, which the server's refusal makes certain.
func read(t *testing.T, s source.Source) error {
	t.Helper()
	_, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{time.Minute}})
	check.Error(t, err)
	return err
}

func TestOpen_AccountToken(t *testing.T) {
	for kind := range specs("", config.MetricProviderSpec{}) {
		for _, bundle := range []string{"ca.crt", "service-ca.crt"} {
			t.Run(kind+" trusted by "+bundle, func(t *testing.T) {
				s, dir := newServer(t, true), t.TempDir()
				write(t, dir, "token", "first\n")
				write(t, dir, bundle, certificateOf(s))
				opened := check.Value(Open(t.Context(), source.Cluster{Nodes: oneNode(t)}, specs(s.URL, config.MetricProviderSpec{})[kind],
					Account{Dir: dir}, clock.RealClock{}))(t)
				for _, token := range []string{"first", "second"} { // as it rotates
					write(t, dir, "token", token)
					err := read(t, opened)
					if seen := s.last(); !slices.Equal(seen, []string{"Bearer " + token}) {
						t.Errorf("the server saw %q, want the token %s: %v", seen, token, err)
					}
				}
			})
		}
	}
}

func TestOpen_AccountNotUsed(t *testing.T) {
	account := t.TempDir()
	write(t, account, "token", "of-account")
	secure, plain := newServer(t, true), newServer(t, false)
	tokenFile := write(t, t.TempDir(), "token", "of-file")
	other := write(t, t.TempDir(), "ca.crt", certificateOf(secure))
	for _, tt := range []struct {
		name     string
		dir      string
		server   *server
		provider config.MetricProviderSpec
		want     string
	}{
		{"a token is configured", account, secure, config.MetricProviderSpec{Token: "of-config", CAFile: other}, "Bearer of-config"},
		{
			"an httpConfigFile is configured", account, secure,
			config.MetricProviderSpec{HTTPConfigFile: write(t, t.TempDir(), "http", "tls_config: {ca_file: "+other+"}\nbearer_token: of-http")}, "Bearer of-http",
		},
		{"a tokenFile is configured", account, secure, config.MetricProviderSpec{TokenFile: tokenFile, CAFile: other}, "Bearer of-file"},
		{"plain http", account, plain, config.MetricProviderSpec{}, ""},
		{"no account", "", secure, config.MetricProviderSpec{CAFile: other}, ""},
		{"a caFile alone leaves the account in use", account, secure, config.MetricProviderSpec{CAFile: other}, "Bearer of-account"},
		{"certificates are not verified", account, secure, config.MetricProviderSpec{InsecureSkipVerify: true}, ""},
		{"a tokenFile is sent although certificates are not verified", account, secure, config.MetricProviderSpec{TokenFile: tokenFile, InsecureSkipVerify: true}, "Bearer of-file"},
	} {
		for kind, spec := range specs(tt.server.URL, tt.provider) {
			t.Run(tt.name+", "+kind, func(t *testing.T) {
				opened, err := Open(t.Context(), source.Cluster{Nodes: oneNode(t)}, spec, Account{Dir: tt.dir}, clock.RealClock{})
				check.OK(t, err)
				err = read(t, opened)
				if seen := tt.server.last(); !slices.Equal(seen, []string{tt.want}) {
					t.Errorf("the server saw %q, want %q: %v", seen, tt.want, err)
				}
			})
		}
	}
}

func TestOpen_CAFileReplacesAccountCAs(t *testing.T) {
	s, dir := newServer(t, true), t.TempDir()
	write(t, dir, "token", "of-account")
	write(t, dir, "ca.crt", certificateOf(s))
	unrelated, _, err := cert.GenerateSelfSignedCertKey("elsewhere", nil, nil)
	check.OK(t, err)
	provider := config.MetricProviderSpec{CAFile: write(t, t.TempDir(), "ca.crt", string(unrelated))}
	for kind, spec := range specs(s.URL, provider) {
		opened, err := Open(t.Context(), source.Cluster{Nodes: oneNode(t)}, spec, Account{Dir: dir}, clock.RealClock{})
		check.OK(t, err)
		err = read(t, opened)
		if seen := s.last(); !strings.Contains(err.Error(), "x509: ") || len(seen) > 0 {
			t.Errorf("%s: %v, and the server saw %q", kind, err, seen)
		}
	}
}

func TestOpen_UnsafeServerGetsNoToken(t *testing.T) {
	dir := t.TempDir() // without a token, which is not needed
	for _, tt := range []struct {
		name     string
		address  string
		provider config.MetricProviderSpec
		parts    []string
	}{
		{"plain http", "http://prometheus:9090", config.MetricProviderSpec{}, []string{"https"}},
		{
			"unverified", "https://prometheus:9090", config.MetricProviderSpec{InsecureSkipVerify: true},
			[]string{"insecureSkipVerify", "caFile", "tokenFile: " + filepath.Join(dir, "token")},
		},
	} {
		for kind, spec := range specs(tt.address, tt.provider) {
			t.Run(tt.name+", "+kind, func(t *testing.T) {
				logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
				ctx := klog.NewContext(t.Context(), logger)
				check.Value(Open(ctx, source.Cluster{Nodes: oneNode(t)}, spec, Account{Dir: dir}, clock.RealClock{}))(t)
				said := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
				for _, part := range append(tt.parts, "ENABLE_OPENSHIFT_AUTH", tt.address, "without a token") {
					if strings.Count(said, "\n") != 1 || !strings.Contains(said, part) {
						t.Errorf("the log is not one line that says %q: %s", part, said)
					}
				}
			})
		}
	}
}

func TestOpen_AccountWithoutToken(t *testing.T) {
	empty := t.TempDir()
	write(t, empty, "token", "\n")
	pipe := t.TempDir()
	check.OK(t, syscall.Mkfifo(filepath.Join(pipe, "token"), 0o600))
	for name, dir := range map[string]string{"no file": t.TempDir(), "an empty file": empty, "a FIFO that nobody writes to": pipe} {
		for kind, spec := range specs("https://prometheus:9090", config.MetricProviderSpec{}) {
			t.Run(name+", "+kind, func(t *testing.T) {
				_, err := Open(t.Context(), source.Cluster{Nodes: oneNode(t)}, spec, Account{Dir: dir}, clock.RealClock{})
				check.Error(t, err)
				check.Error(t, err, "ENABLE_OPENSHIFT_AUTH", "https://prometheus:9090", filepath.Join(dir, "token"),
					"automountServiceAccountToken", "tokenFile")
			})
		}
	}
}

func TestOpen_MetricsServerNeedsNoAccount(t *testing.T) {
	spec := config.LoadSpec{MetricProvider: config.MetricProviderSpec{Type: config.KubernetesMetricsServer}}
	check.Value(Open(
		t.Context(), source.Cluster{Nodes: oneNode(t), KubeConfig: &rest.Config{}}, spec, Account{Dir: t.TempDir()}, clock.RealClock{},
	))(t)
}

func TestServiceAccountFromEnvironment(t *testing.T) {
	const inPod = "/var/run/secrets/kubernetes.io/serviceaccount"
	for value, want := range map[string]string{"": "", "false": "", "0": "", "true": inPod, "True": inPod, "1": inPod} {
		t.Setenv("ENABLE_OPENSHIFT_AUTH", value)
		if got, err := ServiceAccountFromEnvironment(); err != nil || got.Dir != want {
			t.Errorf("%q: %q, %v, want %q", value, got.Dir, err, want)
		}
	}
	t.Setenv("ENABLE_OPENSHIFT_AUTH", "yes")
	if _, err := ServiceAccountFromEnvironment(); err == nil || err.Error() != `env ENABLE_OPENSHIFT_AUTH: "yes" is neither true nor false` {
		t.Error(err)
	}
}

// hostedServer speaks what is needed of SignalFx and Datadog: n1 of the cluster prod carries 25 % cpu and 50 % memory.
func hostedServer(t *testing.T) *httptest.Server {
	t.Helper()
	server := check.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now, percent := time.Now().Truncate(time.Minute).UnixMilli(), 25
		if strings.Contains(r.URL.Query().Get("query"), "memory") {
			percent = 50
		}
		switch r.URL.Path {
		case "/v1/timeserieswindow", "/v2/metrictimeseries":
			if r.Header.Get("X-SF-Token") != "t0ken" ||
				!strings.Contains(r.URL.Query().Get("query"), " AND host:*.example.com AND cluster:prod") {
				t.Errorf("SignalFx was asked with %q for %s", r.Header, r.URL)
			}
			if r.URL.Path == "/v1/timeserieswindow" {
				_, _ = fmt.Fprintf(w, `{"data":{"A%d":[[%d,%d]]},"errors":[]}`, percent, now, percent)
			} else {
				_, _ = fmt.Fprintf(w, `{"count":1,"results":[{"id":"A%d","dimensions":{"host":"n1.example.com"}}]}`, percent)
			}
		case "/api/v2/query/timeseries":
			body, _ := io.ReadAll(r.Body)
			if r.Header.Get("DD-API-KEY") != "t0ken" || r.Header.Get("DD-APPLICATION-KEY") != "s3cond" ||
				!strings.Contains(string(body), "{host:*.example.com,cluster_name:prod}") {
				t.Errorf("Datadog was asked with %q for %s", r.Header, body)
			}
			_, _ = fmt.Fprintf(
				w,
				`{"data":{"attributes":{"series":[{"group_tags":["host:n1.example.com"],"query_index":0},{"group_tags":["host:n1.example.com"],"query_index":1}],"times":[%d],"values":[[25],[50]]}}}`,
				now,
			)
		default:
			t.Errorf("%s was asked for", r.URL)
		}
	}))
	return server
}

func TestOpen_HostedServices(t *testing.T) {
	server := hostedServer(t)
	for _, provider := range []config.MetricProviderSpec{
		{Type: config.SignalFx},
		{Type: config.Datadog, Dialect: config.DialectUtilization, ApplicationKeyFile: write(t, t.TempDir(), "key", "s3cond\n")},
	} {
		t.Run(string(provider.Type), func(t *testing.T) {
			provider.Address, provider.TokenFile = server.URL, write(t, t.TempDir(), "token", "t0ken\n")
			provider.ClusterName, provider.HostNameSuffix = "prod", ".example.com"
			provider.Timeout.Duration = time.Minute
			// The account's token is nobody's but the cluster's.
			account := Account{Dir: t.TempDir()}
			write(t, account.Dir, "token", "account")
			s := check.Value(Open(t.Context(), source.Cluster{Nodes: oneNode(t)}, config.LoadSpec{MetricProvider: provider}, account,
				clock.RealClock{}))(t)
			defer func() { _ = s.(io.Closer).Close() }()
			batch, err := s.Fetch(t.Context(), source.Request{Windows: []time.Duration{5 * time.Minute}})
			if err != nil || len(batch.Samples) != 1 {
				t.Fatalf("samples %v, error %v", batch.Samples, err)
			}
			got := batch.Samples[0]
			if got.Node != "n1" || got.Stats[load.CPU].Mean != 0.25 || got.Stats[load.Memory].Mean != 0.5 {
				t.Errorf("sample %+v", got)
			}
			check.Equal(t, "name", string(provider.Type), s.Name())
		})
	}
}

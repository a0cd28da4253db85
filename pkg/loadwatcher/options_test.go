package loadwatcher

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint/finding"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider/sources"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/manifests/documented"
)

// setEnvironment sets the variables that the program reads, and no others of them.
func setEnvironment(t *testing.T, variablesSet map[string]string) {
	t.Helper()
	for _, variable := range allVariables() {
		t.Setenv(variable, "")
	}
	for variable, value := range variablesSet {
		t.Setenv(variable, value)
	}
}

// allVariables returns the environment variables that the program reads.
func allVariables() []string {
	all := []string{config.TokenVariable, config.ApplicationKeyVariable, sources.AccountVariable}
	for _, s := range newOptions().settings() {
		all = append(append(all, s.others...), s.variable)
	}
	return slices.DeleteFunc(all, func(variable string) bool { return variable == "" })
}

// parsed returns options and their flags, as the arguments set them.
func parsed(t *testing.T, args ...string) (*options, *pflag.FlagSet) {
	t.Helper()
	o, fs := newOptions(), pflag.NewFlagSet("", pflag.ContinueOnError)
	o.addFlags(fs)
	check.OK(t, fs.Parse(args))
	return o, fs
}

// writeKeyPair writes a certificate for 127.0.0.1 with that of its authority, and its key.
func writeKeyPair(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	check.OK(t, err)
	return check.File(t, "tls.crt", string(certificate)), check.File(t, "tls.key", string(key))
}

func TestOptions(t *testing.T) {
	token, kubeconfig := check.File(t, "token", "of-file"), check.File(t, "kubeconfig", "")
	type settings struct {
		load       config.LoadSpec
		kubeconfig string
		verbosity  logsapi.VerbosityLevel
	}
	// What compatibility.md says of a plugin's arguments.
	defaults := func() settings {
		return settings{
			load: config.LoadSpec{
				MetricProvider: config.MetricProviderSpec{
					Type: config.KubernetesMetricsServer, Dialect: config.DialectAuto,
					NodeLabels: []string{"node", "instance", "nodename", "kubernetes_node", "exported_instance", "hostname", "k8s_node_name"},
					Timeout:    metav1.Duration{Duration: 10 * time.Second},
				},
				Window: metav1.Duration{Duration: 5 * time.Minute}, RefreshInterval: metav1.Duration{Duration: 30 * time.Second},
				MaxAge: metav1.Duration{Duration: 5 * time.Minute}, DriftTolerance: 10,
			},
		}
	}
	for _, tc := range []struct {
		name        string
		environment map[string]string
		args        []string
		want        func(*settings)
	}{
		{"nothing given", nil, nil, func(*settings) {}},
		{"the known environment",
			map[string]string{
				"METRICS_PROVIDER_NAME": "Prometheus", "METRICS_PROVIDER_ADDRESS": "https://env:9090", "METRICS_PROVIDER_TOKEN": "of-env",
				"INSECURE_SKIP_VERIFY": "true", "KUBE_CONFIG": "/env/kubeconfig",
			},
			nil,
			func(s *settings) {
				p := &s.load.MetricProvider
				p.Type, p.Address, p.Token, p.InsecureSkipVerify = config.Prometheus, "https://env:9090", "of-env", true
				s.kubeconfig = "/env/kubeconfig"
			}},
		{"flags win over the environment",
			map[string]string{
				"METRICS_PROVIDER_NAME": "SignalFx", "METRICS_PROVIDER_ADDRESS": "no URL", "METRICS_PROVIDER_TOKEN": "of-env",
				"INSECURE_SKIP_VERIFY": "no bool", "KUBE_CONFIG": "/env/kubeconfig",
			},
			[]string{
				"--metrics-provider-name=Prometheus", "--metrics-provider-address=http://flag/prefix", "--token-file=" + token,
				"--insecure-skip-verify=false", "--kubeconfig=" + kubeconfig, "-v=6",
			},
			func(s *settings) {
				p := &s.load.MetricProvider
				p.Type, p.Address, p.TokenFile = config.Prometheus, "http://flag/prefix", token
				s.kubeconfig, s.verbosity = kubeconfig, 6
			}},
		{"all other flags", nil,
			[]string{
				"--metrics-provider-name=Prometheus", "--metrics-provider-address=http://p", "--dialect=Kubelet", "--node-labels=a,b",
				"--cpu-query=c", "--memory-query=m", "--timeout=3s", "--window=10m", "--refresh-interval=1s",
				"--max-age=1m", "--drift-tolerance=5",
			},
			func(s *settings) {
				p := &s.load.MetricProvider
				p.Type, p.Address, p.Dialect, p.NodeLabels = config.Prometheus, "http://p", "Kubelet", []string{"a", "b"}
				p.Queries = &config.LoadQueries{CPU: "c", Memory: "m"}
				p.Timeout.Duration = 3 * time.Second
				s.load.Window.Duration, s.load.RefreshInterval.Duration, s.load.MaxAge.Duration = 10*time.Minute, time.Second, time.Minute
				s.load.DriftTolerance = 5
			}},
		{"the known environment of SignalFx",
			map[string]string{
				"METRICS_PROVIDER_NAME": "SignalFx", "METRICS_PROVIDER_TOKEN": "of-env", "METRICS_PROVIDER_APP_KEY": "not used",
				"SIGNALFX_HOST_NAME_SUFFIX": ".example.com", "SIGNALFX_CLUSTER_NAME": "prod", "DATADOG_CLUSTER_NAME": "of another provider",
			},
			nil,
			func(s *settings) {
				p := &s.load.MetricProvider
				p.Type, p.Address, p.Token = config.SignalFx, "https://api.signalfx.com", "of-env"
				p.HostNameSuffix, p.ClusterName = ".example.com", "prod"
			}},
		{"the known environment of Datadog",
			map[string]string{
				"METRICS_PROVIDER_NAME": "Datadog", "METRICS_PROVIDER_ADDRESS": "datadoghq.eu", "METRICS_PROVIDER_TOKEN": "of-env",
				"METRICS_PROVIDER_APP_KEY": "second",
				"DATADOG_HOST_NAME_SUFFIX": "-prod", "DATADOG_CLUSTER_NAME": "prod", "SIGNALFX_HOST_NAME_SUFFIX": "of another provider",
			},
			nil,
			func(s *settings) {
				p := &s.load.MetricProvider
				p.Type, p.Address, p.Token, p.ApplicationKey = config.Datadog, "https://api.datadoghq.eu", "of-env", "second"
				p.HostNameSuffix, p.ClusterName = "-prod", "prod"
			}},
		{"flags win over the environment of Datadog",
			map[string]string{
				"METRICS_PROVIDER_NAME": "Datadog", "METRICS_PROVIDER_TOKEN": "of-env", "METRICS_PROVIDER_APP_KEY": "of-env",
				"DATADOG_HOST_NAME_SUFFIX": "-env", "DATADOG_CLUSTER_NAME": "env",
			},
			[]string{"--application-key-file=" + token, "--token-file=" + token, "--cluster-name=", "--host-name-suffix=-flag",
				"--dialect=DatadogAgent", "--metrics-provider-address=https://proxy/datadog"},
			func(s *settings) {
				p := &s.load.MetricProvider
				p.Type, p.Address, p.TokenFile, p.ApplicationKeyFile = config.Datadog, "https://proxy/datadog", token, token
				p.HostNameSuffix, p.Dialect = "-flag", config.DialectDatadogAgent
			}},
		{"a timeout that is not given is at most half of the age", nil, []string{"--max-age=12s", "--refresh-interval=5s"},
			func(s *settings) {
				s.load.MaxAge.Duration, s.load.RefreshInterval.Duration = 12*time.Second, 5*time.Second
				s.load.MetricProvider.Timeout.Duration = 6 * time.Second
			}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			setEnvironment(t, tc.environment)
			o, fs := parsed(t, tc.args...)
			spec := check.Value(o.complete(fs))(t)
			want := defaults()
			tc.want(&want)
			got := settings{spec, o.kubeconfig, o.logging.Verbosity}
			check.Equal(t, "settings", want, got, cmp.AllowUnexported(settings{}))
			// Secrets can be compared, but a diff does not show them.
			if string(want.load.MetricProvider.Token) != string(got.load.MetricProvider.Token) ||
				string(want.load.MetricProvider.ApplicationKey) != string(got.load.MetricProvider.ApplicationKey) {
				t.Error("another token or key than the one given")
			}
		})
	}
}

// noCluster is a kubeconfig of a cluster that is not there.
const noCluster = `{"clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
"contexts": [{"name": "c", "context": {"cluster": "c"}}], "current-context": "c"}`

// execute runs the command on a port that is taken: whatever listens fails with that error.
func execute(t *testing.T, environment map[string]string, args ...string) error {
	t.Helper()
	taken := check.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = taken.Close() })
	setEnvironment(t, environment)
	command := NewCommand("v1.2.3", Telemetry{Registry: metrics.NewKubeRegistry(), Handler: http.NotFoundHandler()})
	command.SilenceErrors = true
	command.SetArgs(append([]string{"--listen-address=" + taken.Addr().String()}, args...))
	return command.Execute()
}

func TestOptions_MistakesAreRefusedBeforeListening(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "") // not in a pod
	kubeconfig := "--kubeconfig=" + check.File(t, "kubeconfig", noCluster)
	absent := filepath.Join(t.TempDir(), "absent")
	token := check.File(t, "token", "of-file")
	certFile, _ := writeKeyPair(t)
	_, otherKey := writeKeyPair(t)
	prometheus := func(args ...string) []string {
		return append([]string{kubeconfig, "--metrics-provider-name=Prometheus", "--metrics-provider-address=http://p"}, args...)
	}
	for _, tc := range []struct {
		name        string
		environment map[string]string
		args        []string
		want        []string
	}{
		{"no cluster", nil, nil, []string{"--kubeconfig", "KUBE_CONFIG", "outside a pod"}},
		{"a kubeconfig that is not there", map[string]string{"KUBE_CONFIG": absent}, nil, []string{"--kubeconfig", "KUBE_CONFIG",
			absent}},
		{"SignalFx without a token", map[string]string{"METRICS_PROVIDER_NAME": "SignalFx"}, []string{kubeconfig},
			[]string{"--token-file", "METRICS_PROVIDER_TOKEN", "type SignalFx needs an access token"}},
		{"Datadog without an application key", map[string]string{"METRICS_PROVIDER_NAME": "Datadog", "METRICS_PROVIDER_TOKEN": "hunter2"},
			[]string{kubeconfig}, []string{"--application-key-file", "METRICS_PROVIDER_APP_KEY", "type Datadog needs an application key"}},
		{"an application key of two words", map[string]string{"METRICS_PROVIDER_NAME": "Datadog", "METRICS_PROVIDER_TOKEN": "hunter2",
			"METRICS_PROVIDER_APP_KEY": "a hunter2"}, []string{kubeconfig}, []string{"env METRICS_PROVIDER_APP_KEY", "printable ASCII"}},
		{"a cluster that would change the query", map[string]string{"METRICS_PROVIDER_NAME": "SignalFx",
			"METRICS_PROVIDER_TOKEN": "hunter2", "SIGNALFX_CLUSTER_NAME": "a OR b"}, []string{kubeconfig}, []string{"--cluster-name",
			"SIGNALFX_CLUSTER_NAME", "a OR b", "letters"}},
		{"a suffix that would change the query", map[string]string{"METRICS_PROVIDER_NAME": "Datadog",
			"METRICS_PROVIDER_TOKEN": "hunter2", "METRICS_PROVIDER_APP_KEY": "hunter2", "DATADOG_HOST_NAME_SUFFIX": "}"},
			[]string{kubeconfig}, []string{"--host-name-suffix", "DATADOG_HOST_NAME_SUFFIX", "letters"}},
		{"a cluster of Prometheus", nil, prometheus("--cluster-name=a"), []string{"--cluster-name", "SignalFx and Datadog"}},
		{"an unknown provider", nil, []string{kubeconfig, "--metrics-provider-name=Graphite"}, []string{"--metrics-provider-name",
			"Graphite", "Prometheus", "SignalFx", "Datadog"}},
		{"Prometheus without an address", map[string]string{"METRICS_PROVIDER_NAME": "Prometheus"}, []string{kubeconfig},
			[]string{"--metrics-provider-address", "METRICS_PROVIDER_ADDRESS", "http://"}},
		{"an address without a scheme", map[string]string{"METRICS_PROVIDER_NAME": "Prometheus", "METRICS_PROVIDER_ADDRESS": "prom:9090"},
			[]string{kubeconfig}, []string{"METRICS_PROVIDER_ADDRESS", "prom:9090", "http://"}},
		{"an address with a password", nil, prometheus("--metrics-provider-address=http://u:hunter2@p"),
			[]string{"--metrics-provider-address", "tokenFile"}},
		{"a token of two words", map[string]string{"METRICS_PROVIDER_TOKEN": "Bearer hunter2"}, prometheus(),
			[]string{"METRICS_PROVIDER_TOKEN", "without"}},
		{"a token file that is not there", nil, prometheus("--token-file=" + absent), []string{"--token-file", absent}},
		{"a CA file that holds no certificate", nil, prometheus("--ca-file=" + token), []string{"--ca-file", token, "certificate"}},
		{"ENABLE_OPENSHIFT_AUTH that is no bool", map[string]string{"ENABLE_OPENSHIFT_AUTH": "perhaps"}, prometheus(),
			[]string{"ENABLE_OPENSHIFT_AUTH", "perhaps", "true", "false"}},
		{"INSECURE_SKIP_VERIFY that is no bool", map[string]string{"INSECURE_SKIP_VERIFY": "maybe"}, prometheus(),
			[]string{"INSECURE_SKIP_VERIFY", "maybe"}},
		{"an unknown dialect", nil, prometheus("--dialect=Esperanto"), []string{"--dialect", "Esperanto", "NodeExporter"}},
		{"a query that says nothing", nil, prometheus("--cpu-query= "), []string{"--cpu-query", "PromQL"}},
		{"queries to metrics-server", nil, []string{kubeconfig, "--memory-query=m"}, []string{"-query", "Prometheus",
			"KubernetesMetricsServer"}},
		{"no node label", nil, prometheus("--node-labels="), []string{"--node-labels"}},
		{"an impossible node label", nil, prometheus("--node-labels=a,b-c"), []string{"--node-labels", "b-c"}},
		{"a window too short", nil, prometheus("--window=1s"), []string{"--window", "1s", "10s", "1h"}},
		{"a window that is none", nil, prometheus("--window=long"), []string{"--window", "long"}},
		{"refreshes rarer than the age", nil, prometheus("--refresh-interval=10m"), []string{"--refresh-interval", "10m", "maxAge"}},
		{"an age of nothing", nil, prometheus("--max-age=0"), []string{"--max-age"}},
		{"a negative timeout", nil, prometheus("--timeout=-1s"), []string{"--timeout", "-1s", "maxAge"}},
		{"a negative tolerance", nil, prometheus("--drift-tolerance=-1"), []string{"--drift-tolerance", "-1"}},
		{"an address to listen on without a port", nil, prometheus("--listen-address=localhost"), []string{"--listen-address",
			"localhost", "port"}},
		{"a certificate without its key", nil, prometheus("--tls-cert-file=" + certFile), []string{"--tls-cert-file",
			"--tls-private-key-file"}},
		{"another certificate's key", nil, prometheus("--tls-cert-file="+certFile, "--tls-private-key-file="+otherKey),
			[]string{"--tls-private-key-file", "match"}},
		{"a key that is not there", nil, prometheus("--tls-cert-file="+certFile, "--tls-private-key-file="+absent),
			[]string{"--tls-private-key-file", absent}},
		{"an unknown flag", nil, prometheus("--windw=5m"), []string{"--windw"}},
		{"an argument", nil, prometheus("serve"), []string{"serve"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := execute(t, tc.environment, tc.args...)
			check.Error(t, err)
			check.Lacks(t, err.Error(), "\n")
			check.Error(t, err, tc.want...)
			for _, never := range []string{"hunter2", "of-file", "address already in use"} {
				check.Lacks(t, err.Error(), never)
			}
		})
	}
}

func TestOptions_ValidSettingsListen(t *testing.T) {
	t.Cleanup(klog.StopFlushDaemon) // which applying the log flags starts
	handling := logsapi.ReapplyHandling
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged // with -count above 1
	t.Cleanup(func() { logsapi.ReapplyHandling = handling })
	err := execute(t, map[string]string{"KUBE_CONFIG": check.File(t, "kubeconfig", noCluster)})
	check.Error(t, err, "address already in use", "--listen-address")
}

func TestVersionAndHelp(t *testing.T) {
	for flag, want := range map[string][]string{
		"--version": {"Plimsoll v1.2.3"},
		"--help": {
			"METRICS_PROVIDER_NAME", "METRICS_PROVIDER_ADDRESS", "METRICS_PROVIDER_TOKEN", "INSECURE_SKIP_VERIFY", "KUBE_CONFIG",
			`(default ":2020")`, `(default "KubernetesMetricsServer")`, "--window duration", "(default 5m0s)",
		},
	} {
		command, shown := NewCommand("v1.2.3", Telemetry{}), &strings.Builder{}
		command.SetOut(shown)
		command.SetArgs([]string{flag})
		check.OK(t, command.Execute())
		for _, part := range want {
			if !strings.Contains(shown.String(), part) {
				t.Errorf("%s does not say %q:\n%s", flag, part, shown)
			}
		}
	}
}

func TestDocs_Flags(t *testing.T) {
	documented.CheckFlags(t, "../..", NewCommand("v1.2.3", Telemetry{}), "load-watcher")
}

// The README's table is written by hand.
func TestDocs_NamesAllFlagsAndVariables(t *testing.T) {
	content := check.Value(os.ReadFile("../../docs/load-watcher.md"))(t)
	readme := string(content)
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	newOptions().addFlags(fs)
	logging := pflag.NewFlagSet("", pflag.ContinueOnError)
	logsapi.AddFlags(logsapi.NewLoggingConfiguration(), logging)
	fs.VisitAll(func(f *pflag.Flag) {
		name := fmt.Sprintf("`--%s`", f.Name)
		if f.Name == "v" {
			name = "`-v`"
		} else if logging.Lookup(f.Name) != nil {
			return // the docs name them together
		}
		check.Contains(t, readme, name)
	})
	for _, variable := range allVariables() {
		check.Contains(t, readme, "`"+variable+"`")
	}
}

func TestOptions_CheckQueries(t *testing.T) {
	setEnvironment(t, nil)
	// rate without a range is MetricsQL; its argument is in column 6.
	o, _ := parsed(t, "--cpu-query=avg by (node) (rate(used[$window]))", "--memory-query=rate(a)")
	want := []finding.Finding{{
		Code: finding.QueryInvalid, Field: "--memory-query",
		Details: []any{"query", "rate(a)", "queryLine", "1", "queryColumn", "6",
			"problem", `expected type range vector in call to function "rate", got instant vector`},
	}}
	check.Equal(t, "findings", want, o.checkQueries(&config.MetricProviderSpec{Type: config.Prometheus}))
	for _, other := range []config.MetricProviderType{config.SignalFx, config.Datadog} {
		if got := o.checkQueries(&config.MetricProviderSpec{Type: other}); len(got) > 0 {
			t.Errorf("findings %v in queries that are not PromQL", got)
		}
	}
}

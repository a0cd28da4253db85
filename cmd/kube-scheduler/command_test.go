package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	componentversion "k8s.io/component-base/version"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider"
)

// configuration returns a scheduler configuration that gives a plugin arguments, one YAML field a line.
func configuration(plugin, fields string) string {
	return fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: KUBECONFIG}
profiles:
- schedulerName: plimsoll
  plugins:
    score:
      enabled: [{name: %[1]s}]
  pluginConfig:
  - name: %[1]s
    args:
      %[2]s
`, plugin, strings.ReplaceAll(fields, "\n", "\n      "))
}

// noCluster is a kubeconfig for an address that nothing listens on.
const noCluster = `{"clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
"contexts": [{"name": "c", "context": {"cluster": "c"}}], "current-context": "c"}`

// start runs the command with a configuration, on a port that is taken, so that it ends with another error once it listens.
func start(t *testing.T, content string) error {
	t.Helper()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	dir := t.TempDir()
	file, kubeconfig := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "kubeconfig")
	for name, content := range map[string]string{
		file:       strings.Replace(content, "KUBECONFIG", kubeconfig, 1),
		kubeconfig: noCluster,
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := newCommand(clock.RealClock{}, metrics.NewKubeRegistry(), provider.Account{})
	command.SetArgs([]string{
		"--config=" + file,
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", taken.Addr().(*net.TCPAddr).Port),
	})
	command.SilenceErrors, command.SilenceUsage = true, true
	return command.Execute()
}

func TestCommand_RefusesInvalidArgumentsBeforeListening(t *testing.T) {
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("t"), 0o600); err != nil {
		t.Fatal(err)
	}
	absent := filepath.Join(dir, "absent")
	const packing, balancing = "TargetLoadPacking", "LoadVariationRiskBalancing"
	provider := func(fields string) string {
		return "metricProvider: {type: Prometheus, address: http://prometheus:9090, " + fields + "}"
	}

	for _, tc := range []struct {
		name, plugin, args string
		want               []string
	}{
		{"unknown field", packing, "targetUtilisation: 40", []string{`unknown field "targetUtilisation"`, "args.targetUtilisation", "did you mean targetUtilization?"}},
		{"target 0", packing, "targetUtilization: 0", []string{"targetUtilization", "0", "1", "99"}},
		{"target 100", packing, "targetUtilization: 100", []string{"targetUtilization", "100", "1", "99"}},
		{"target -1", packing, "targetUtilization: -1", []string{"targetUtilization", "-1", "1", "99"}},
		{"target 150", packing, "targetUtilization: 150", []string{"targetUtilization", "150", "1", "99"}},
		{"multiplier abc", packing, `defaultRequestsMultiplier: "abc"`, []string{"defaultRequestsMultiplier", "abc"}},
		{"multiplier NaN", packing, `defaultRequestsMultiplier: "NaN"`, []string{"defaultRequestsMultiplier", "NaN"}},
		{"multiplier -1", packing, `defaultRequestsMultiplier: "-1"`, []string{"defaultRequestsMultiplier", "-1"}},
		{"negative margin", balancing, "safeVarianceMargin: -1", []string{"safeVarianceMargin", "-1"}},
		{"unknown provider type", packing, "metricProvider: {type: Graphite}", []string{"metricProvider.type", "Graphite", "Prometheus", "KubernetesMetricsServer"}},
		{"unknown dialect", packing, provider("dialect: Esperanto"), []string{"metricProvider.dialect", "Esperanto", "NodeExporter"}},
		{"unknown missingLoad", packing, "missingLoad: Highest", []string{"missingLoad", "Highest", "Requests", "Neutral", "Lowest"}},
		{"watcherAddress without scheme", packing, "watcherAddress: load-watcher:2020", []string{"watcherAddress", "load-watcher:2020", "http"}},
		{"address of another scheme", packing, "metricProvider: {type: Prometheus, address: 'ftp://prometheus:9090'}", []string{"metricProvider.address", "ftp://prometheus:9090", "http"}},
		{"unreadable tokenFile", packing, provider("tokenFile: " + absent), []string{"metricProvider.tokenFile", absent}},
		{"unreadable caFile", packing, provider("caFile: " + absent), []string{"metricProvider.caFile", absent}},
		{"token and tokenFile", packing, provider("token: t, tokenFile: " + token), []string{"token", "tokenFile"}},
		{"refreshInterval below 1 s", packing, "refreshInterval: 500ms", []string{"refreshInterval", "500ms", "1s"}},
		{"refreshInterval above maxAge", packing, "refreshInterval: 2m\nmaxAge: 1m", []string{"refreshInterval", "2m0s", "maxAge"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := start(t, configuration(tc.plugin, tc.args))
			if err == nil {
				t.Fatal("no error")
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line:\n%v", err)
			}
			for _, part := range append(tc.want, "config.yaml") {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
		})
	}
}

func TestCommand_ReadsTheEnvironmentOfHostedServices(t *testing.T) {
	args := configuration("TargetLoadPacking", "metricProvider: {type: SignalFx}")
	t.Setenv("METRICS_PROVIDER_TOKEN", "")
	t.Setenv("SIGNALFX_CLUSTER_NAME", "of two words")
	err := start(t, args)
	if err == nil || !strings.Contains(err.Error(), "clusterName: Invalid value: \"of two words\"") ||
		!strings.Contains(err.Error(), "tokenFile: Required value") || !strings.Contains(err.Error(), "environment variable METRICS_PROVIDER_TOKEN") {
		t.Error(err)
	}
	t.Setenv("METRICS_PROVIDER_TOKEN", "hunter2")
	if err = start(t, args); err == nil || strings.Contains(err.Error(), "tokenFile") || strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
}

func TestCompleted(t *testing.T) {
	t.Setenv("METRICS_PROVIDER_TOKEN", "hunter2")
	t.Setenv("SIGNALFX_CLUSTER_NAME", "prod")
	var got *config.LoadSpec
	factory := completed(func(_ context.Context, args runtime.Object, _ minor.Handle) (minor.Plugin, error) {
		got = args.(*config.TargetLoadPackingArgs).GetLoadSpec()
		return nil, nil
	})
	args := &config.TargetLoadPackingArgs{}
	args.MetricProvider.Type = config.SignalFx
	if _, err := factory(t.Context(), args, nil); err != nil {
		t.Fatal(err)
	}
	if got.MetricProvider.Token != "hunter2" || got.MetricProvider.ClusterName != "prod" {
		t.Errorf("the plugin gets %+v", got.MetricProvider)
	}
	if args.MetricProvider.Token != "" || args.MetricProvider.ClusterName != "" {
		t.Errorf("the scheduler's configuration is changed: %+v", args.MetricProvider)
	}
}

func TestCommand_RefusesOldVersionBeforeListening(t *testing.T) {
	old := strings.Replace(configuration("TargetLoadPacking", "targetUtilization: 60"), "k8s.io/v1", "k8s.io/v1beta3", 1)
	err := start(t, old)
	if err == nil || !strings.Contains(err.Error(), "config.yaml: kubescheduler.config.k8s.io/v1beta3 is no longer read") || !strings.Contains(err.Error(), "line 1: apiVersion") {
		t.Error(err)
	}
}

// The stock command sets up its logging once a process, so that only one test can get past the configuration.
func TestCommand_AcceptsQueryOfAnotherDialect(t *testing.T) {
	err := start(t, configuration("NodeMetrics",
		"metricProvider: {type: Prometheus, address: 'http://prometheus:9090'}\nmetrics: [{name: m, query: rate(a), prefer: Lower}]"))
	if err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("got %v, want the error of the port that is taken", err)
	}
}

func TestCommand_BuildInfo(t *testing.T) {
	registry := metrics.NewKubeRegistry()
	newCommand(clock.RealClock{}, registry, provider.Account{})
	want := fmt.Sprintf(`# HELP plimsoll_build_info [ALPHA] Always 1. The labels are the version of Plimsoll, and that of the Kubernetes that it is built with.
# TYPE plimsoll_build_info gauge
plimsoll_build_info{kubernetes=%q,version=%q} 1
`, componentversion.Get().GitVersion, programVersion())
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "plimsoll_build_info"); err != nil {
		t.Error(err)
	}
}

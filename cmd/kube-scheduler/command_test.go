package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	componentversion "k8s.io/component-base/version"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/internal/program"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider/sources"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/manifests/documented"
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

// kubeconfig returns a kubeconfig for an API server.
func kubeconfig(server string) string {
	return fmt.Sprintf(`{"clusters": [{"name": "c", "cluster": {"server": %q}}],
"contexts": [{"name": "c", "context": {"cluster": "c"}}], "current-context": "c"}`, server)
}

// run runs the command with a configuration, a kubeconfig and flags.
func run(t *testing.T, content, kubeconfig string, flags ...string) error {
	t.Helper()
	dir := t.TempDir()
	file, kubeconfigFile := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "kubeconfig")
	for name, content := range map[string]string{
		file: strings.Replace(content, "KUBECONFIG", kubeconfigFile, 1), kubeconfigFile: kubeconfig,
	} {
		check.OK(t, os.WriteFile(name, []byte(content), 0o600))
	}
	command := newCommand(clock.RealClock{}, metrics.NewKubeRegistry(), sources.Account{})
	command.SetArgs(append([]string{"--config=" + file, "--bind-address=127.0.0.1"}, flags...))
	command.SilenceErrors, command.SilenceUsage = true, true
	return command.Execute()
}

// start runs the command on a port that is taken, so that it ends with another error once it listens. No API server responds.
func start(t *testing.T, content string) error {
	t.Helper()
	taken := check.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer func() { _ = taken.Close() }()
	return run(t, content, kubeconfig("https://127.0.0.1:1"), fmt.Sprintf("--secure-port=%d", taken.Addr().(*net.TCPAddr).Port))
}

// TestValidateArgs and TestCheck_UnknownFields have the other errors.
func TestCommand_RefusesInvalidArgumentsBeforeListening(t *testing.T) {
	absent := filepath.Join(t.TempDir(), "absent")
	for args, want := range map[string][]string{
		"targetUtilisation: 40": {"args.targetUtilisation: there is no such field", "did you mean targetUtilization?"},
		"targetUtilization: 0":  {"targetUtilization", "0", "1", "99"},
		"metricProvider: {type: Prometheus, address: http://prometheus:9090, tokenFile: " + absent + "}": {"metricProvider.tokenFile", absent},
	} {
		t.Run(args, func(t *testing.T) {
			err := start(t, configuration("TargetLoadPacking", args))
			check.Error(t, err, append(want, "config.yaml")...)
			check.Lacks(t, err.Error(), "\n")
		})
	}
}

// TestCopyFlag has the flags of which the text is not what was given.
func TestCopyFlag(t *testing.T) {
	for name, values := range map[string][]string{
		"tls-sni-cert-key":                       {"a.crt,a.key", "b.crt,b.key:example.com,*.example.com"},
		"authorization-always-allow-paths":       {"/healthz,/x", "/y"},
		"authentication-tolerate-lookup-failure": {"true"},
	} {
		var from, to *pflag.Flag
		for _, flag := range []**pflag.Flag{&from, &to} {
			o := options.NewOptions()
			for _, set := range o.Flags.FlagSets {
				if found := set.Lookup(name); found != nil {
					*flag = found
				}
			}
		}
		for _, value := range values {
			check.OK(t, from.Value.Set(value))
		}
		check.OK(t, copyFlag(to, from))
		check.Equal(t, name, from.Value.String(), to.Value.String())
	}
}

func TestCommand_ReadsTheEnvironmentOfHostedServices(t *testing.T) {
	args := configuration("TargetLoadPacking", "metricProvider: {type: SignalFx}")
	t.Setenv("METRICS_PROVIDER_TOKEN", "")
	t.Setenv("SIGNALFX_CLUSTER_NAME", "of two words")
	err := start(t, args)
	check.Error(t, err, "clusterName: Invalid value: \"of two words\"", "tokenFile: Required value", "environment variable METRICS_PROVIDER_TOKEN")
	t.Setenv("METRICS_PROVIDER_TOKEN", "hunter2")
	if err = start(t, args); err == nil || strings.Contains(err.Error(), "tokenFile") || strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
}

func TestCompleted(t *testing.T) {
	t.Setenv("METRICS_PROVIDER_TOKEN", "hunter2")
	t.Setenv("SIGNALFX_CLUSTER_NAME", "prod")
	var got *config.LoadSpec
	factory := withEnvironment(func(_ context.Context, args runtime.Object, _ minor.Handle) (minor.Plugin, error) {
		got = args.(*config.TargetLoadPackingArgs).GetLoadSpec()
		return nil, nil
	})
	args := &config.TargetLoadPackingArgs{}
	args.MetricProvider.Type = config.SignalFx
	check.Value(factory(t.Context(), args, nil))(t)
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
	check.Error(t, err, "config.yaml: apiVersion: kubescheduler.config.k8s.io/v1beta3 is no longer supported")
}

// TestCommand_MakesPlugins gets as far as the file for --write-config-to, whose folder does not exist. The stock
// command handles signals once a process, so that only one test can get past the configuration.
func TestCommand_MakesPlugins(t *testing.T) {
	server := check.Serve(t, http.NotFoundHandler())
	err := run(t, configuration("NodeMetrics",
		"metricProvider: {type: Prometheus, address: 'http://prometheus:9090'}\nmetrics: [{name: m, query: rate(a), prefer: Lower}]"),
		kubeconfig(server.URL), "--secure-port=0", "--write-config-to="+filepath.Join(t.TempDir(), "absent", "written.yaml"))
	check.Error(t, err, "written.yaml: no such file or directory") // a query of another dialect is accepted
}

func TestCommand_BuildInfo(t *testing.T) {
	registry := metrics.NewKubeRegistry()
	newCommand(clock.RealClock{}, registry, sources.Account{})
	want := fmt.Sprintf(
		`# HELP plimsoll_build_info [ALPHA] Always 1. The labels are the version of Plimsoll, and that of the Kubernetes that it is built with.
# TYPE plimsoll_build_info gauge
plimsoll_build_info{kubernetes=%q,version=%q} 1
`,
		componentversion.Get().GitVersion,
		program.Version(""),
	)
	check.OK(t, testutil.GatherAndCompare(registry, strings.NewReader(want), "plimsoll_build_info"))
}

// validateOnly runs the command with --validate-only, as main does. stderr includes the log.
func validateOnly(t *testing.T, config string) (stdout, stderr string, code int) {
	t.Helper()
	defer klog.CaptureState().Restore() // the command ends the log
	file := check.File(t, "config.yaml", config)
	command := newCommand(clock.RealClock{}, metrics.NewKubeRegistry(), sources.Account{})
	var out, errs bytes.Buffer
	command.SetOut(&out)
	command.SetErr(&errs)
	command.SetArgs([]string{"--config=" + file, "--validate-only"})
	klog.SetLogger(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&errs))))
	code = cli.Run(command)
	// A build with the race detector says so in the log, and a server of another test that it ends.
	return out.String(), regexp.MustCompile(`(?m)^I.* (withrace|tlsconfig)\.go.*\n`).ReplaceAllString(errs.String(), ""), code
}

// TestCommand_ValidateOnly uses configurations that name a kubeconfig and a token file that do not exist here.
func TestCommand_ValidateOnly(t *testing.T) {
	const source = "metricProvider: {type: Prometheus, address: 'http://prometheus:9090', tokenFile: /etc/plimsoll/token/token}"
	valid := strings.Replace(configuration("TargetLoadPacking", source), "[{name: TargetLoadPacking}]",
		"[{name: TargetLoadPacking, weight: 5}]", 1)
	stdout, stderr, code := validateOnly(t, valid)
	if code != 0 || stderr != "" || !strings.HasSuffix(stdout, "config.yaml is valid\n") {
		t.Errorf("a valid configuration: code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	stdout, stderr, code = validateOnly(t,
		strings.Replace(valid, "score:\n", "score:\n      disabled: [{name: NodeResourceFit}]\n", 1))
	if code != 0 || !strings.HasPrefix(stderr, "Warning: ") || !strings.Contains(stderr, `similar=["NodeResourcesFit"]`) ||
		stdout == "" {
		t.Errorf("a warning: code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	for _, tt := range []struct{ name, config, want string }{
		{"a misspelled argument", configuration("TargetLoadPacking", "targetUtilisation: 40"), "did you mean targetUtilization?"},
		{"a value out of range", configuration("TargetLoadPacking", "targetUtilization: 140"), "targetUtilization: Invalid value: 140"},
		{"a plugin of another project", configuration("Coscheduling", "permitWaitingTimeSeconds: 1"), "enables a plugin that does not exist"},
		{"a misspelled plugin", configuration("TargetLoadPaking", "targetUtilization: 40"), `similar=["TargetLoadPacking"]`},
		{"what the stock scheduler validates", valid + "parallelism: -1\n", "parallelism: Invalid value: -1"},
		{"an old version", strings.Replace(valid, "k8s.io/v1", "k8s.io/v1beta3", 1), "is no longer supported"},
	} {
		stdout, stderr, code := validateOnly(t, tt.config)
		if code != 1 || !strings.Contains(stderr, tt.want) || stdout != "" {
			t.Errorf("%s: got code %d, stderr %q and stdout %q, want an error with %q", tt.name, code, stderr, stdout, tt.want)
		}
		if !strings.Contains(stderr, "Error: ") || !strings.HasSuffix(stderr, "config.yaml is invalid\n") ||
			strings.Contains(stderr, "command failed") {
			t.Errorf("%s: stderr is %q, want errors in plain text", tt.name, stderr)
		}
	}
}

func TestCommand_ValidateOnlyPrintsOneErrorALine(t *testing.T) {
	_, stderr, _ := validateOnly(t, configuration("TargetLoadPacking", "targetUtilization: 140\nwindow: 1s"))
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "Error: profiles[0].pluginConfig[0].args.window: ") ||
		!strings.HasPrefix(lines[1], "Error: profiles[0].pluginConfig[0].args.targetUtilization: ") {
		t.Errorf("stderr is %q, want a line for the window, one for the target, and one for the file", stderr)
	}
	_, stderr, _ = validateOnly(t,
		strings.Replace(configuration("TargetLoadPaking", "x: 1"), "score:\n", "score:\n      disabled: [{name: NodeResourceFit}]\n", 1))
	for _, want := range []string{`Warning: "The configuration disables a plugin`, `Error: "The configuration enables a plugin`} {
		check.Contains(t, "\n"+stderr, "\n"+want)
	}
}

func TestCommand_HelpShowsOwnFlags(t *testing.T) {
	command := newCommand(clock.RealClock{}, metrics.NewKubeRegistry(), sources.Account{})
	var out bytes.Buffer
	command.SetOut(&out)
	command.SetArgs([]string{"--help"})
	check.OK(t, command.Execute())
	for _, part := range []string{"--validate-only", "--leader-elect "} {
		if strings.Count(out.String(), part) == 0 {
			t.Errorf("the help does not show %s", part)
		}
	}
}

func TestDocs_Flags(t *testing.T) {
	documented.CheckFlags(t, "../..", newCommand(clock.RealClock{}, metrics.NewKubeRegistry(), sources.Account{}), "kube-scheduler")
}

func TestCommand_RefusesUnknownPluginBeforeListening(t *testing.T) {
	err := start(t, configuration("Coscheduling", "permitWaitingTimeSeconds: 1"))
	if err == nil || !strings.Contains(err.Error(), "enables a plugin that does not exist") || strings.Contains(err.Error(), "\n") {
		t.Error(err)
	}
}

package shadow

import (
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// The scheduler reads these variables, too.
func TestConfiguration_TokensOfTheEnvironment(t *testing.T) {
	t.Setenv("METRICS_PROVIDER_TOKEN", "key")
	t.Setenv("METRICS_PROVIDER_APP_KEY", "application-key")
	o := options{config: check.File(t, "scheduler.yaml", `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: plimsoll
  plugins: {score: {enabled: [{name: TargetLoadPacking}]}}
  pluginConfig:
  - name: TargetLoadPacking
    args: {metricProvider: {type: Datadog, address: "https://api.datadoghq.eu"}}
`)}
	cfg := check.Value(o.configuration())(t)
	for _, plugin := range cfg.Profiles[0].PluginConfig {
		if spec := config.LoadSpecOf(plugin.Args); spec != nil {
			check.Equal(t, "keys", []config.Secret{"key", "application-key"}, []config.Secret{spec.MetricProvider.Token, spec.MetricProvider.ApplicationKey})
		}
	}
}

func TestCommand_Address(t *testing.T) {
	for _, args := range [][]string{{"--address=localhost:10269"}, {"--address=http://localhost:10269", "--service=a/b"}} {
		_, err := check.Execute(t.Context(), Command(), args...)
		check.Error(t, err, "--address: ", "write an http(s) URL, such as http://localhost:10269, and no --service")
	}
}

func TestRun_ChecksItsFlags(t *testing.T) {
	file := check.File(t, "config.yaml", "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
	for _, tc := range []struct {
		args []string
		want string
	}{
		{nil, "--config: required"},
		{[]string{"--config=" + file, "--cpu-share=0"}, "--cpu-share: 0; write a share of one core, from 0.001 to 1"},
		{[]string{"--config=" + file, "--cpu-share=0.0009"}, "--cpu-share: 0.0009"},
		{[]string{"--config=" + file, "--cpu-share=NaN"}, "--cpu-share: NaN"},
		{[]string{"--config=" + file, "--scheduler-name="}, "--scheduler-name: empty"},
		{[]string{"--config=" + file, "--profile=other"}, `--profile: "other", but ` + file + " has the profiles "},
		{[]string{"--config=" + file, "--kubeconfig=" + file + "x"}, "--kubeconfig: "},
	} {
		if _, err := check.Execute(t.Context(), Command(), append([]string{"run"}, tc.args...)...); err == nil ||
			!strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: error %v, want %q", tc.args, err, tc.want)
		}
	}
}

package plugins_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
)

// configurations are the YAML blocks of a README, as whole configurations. One that is a list of metrics alone is what stands
// in the arguments of NodeMetrics.
func configurations(t *testing.T, readme string) []string {
	t.Helper()
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		whole := block[1]
		if strings.HasPrefix(whole, "metrics:\n") {
			whole = fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: NodeMetrics}]}}
  pluginConfig:
  - name: NodeMetrics
    args:
      metricProvider: {type: Prometheus, address: "http://prometheus:9090"}
      %s
`, strings.ReplaceAll(whole, "\n", "\n      "))
		}
		all = append(all, whole)
	}
	return all
}

// The scheduler accepts every configuration in the READMEs.
func TestREADME_Configurations(t *testing.T) {
	for readme, want := range map[string]int{
		"../../README.md":                      1,
		"../../apis/config/README.md":          1,
		"loadthreshold/README.md":              1,
		"loadvariationriskbalancing/README.md": 1,
		"lowriskovercommitment/README.md":      1,
		"nodemetrics/README.md":                10,
		"peaks/README.md":                      1,
		"predictedpeak/README.md":              1,
		"targetloadpacking/README.md":          1,
	} {
		t.Run(filepath.Dir(readme), func(t *testing.T) {
			all := configurations(t, readme)
			if len(all) != want {
				t.Errorf("%d configurations, want %d", len(all), want)
			}
			for _, whole := range all {
				decoded := decode(t, whole)
				if err := validation.ValidateKubeSchedulerConfiguration(decoded); err != nil {
					t.Errorf("%v:\n%s", err, whole)
				}
				newLive(t, nil, nil).prepare(decoded)
			}
		})
	}
}

// Profiles that the README says share a reader name the same provider.
func TestREADME_SharedProvider(t *testing.T) {
	shared := 0
	for _, whole := range configurations(t, "nodemetrics/README.md") {
		var providers []config.MetricProviderSpec
		for _, profile := range decode(t, whole).Profiles {
			for _, plugin := range profile.PluginConfig {
				if args, ok := plugin.Args.(*config.NodeMetricsArgs); ok {
					providers = append(providers, args.MetricProvider)
				}
			}
		}
		for _, other := range providers[1:] {
			shared++
			if !reflect.DeepEqual(providers[0], other) {
				t.Errorf("%+v is not %+v", other, providers[0])
			}
		}
	}
	if shared == 0 {
		t.Error("no configuration with two profiles")
	}
}

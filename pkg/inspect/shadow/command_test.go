package shadow

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
)

// TestConfiguration_HasNoStatisticsFile has a file of the scheduler's in the arguments of both plugins that learn.
func TestConfiguration_HasNoStatisticsFile(t *testing.T) {
	const content = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: plimsoll
  plugins: {multiPoint: {enabled: [{name: PredictedPeak}, {name: LoadThreshold}]}}
  pluginConfig:
  - name: PredictedPeak
    args: {statisticsFile: /absent/statistics}
  - name: LoadThreshold
    args: {statistic: PredictedPeak, predictedPeak: {statisticsFile: /absent/statistics}}
`
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	o := options{config: file}
	cfg, err := o.configuration(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	learning := 0
	for _, plugin := range cfg.Profiles[0].PluginConfig {
		if peaks := config.PeakSpecOf(plugin.Args); peaks != nil {
			if learning++; peaks.StatisticsFile != "" {
				t.Errorf("%s has the file %s", plugin.Name, peaks.StatisticsFile)
			}
		}
	}
	if learning != 2 {
		t.Errorf("%d plugins learn, want 2", learning)
	}
}

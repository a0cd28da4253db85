package plugins_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
)

// configurations are the YAML blocks of a page, as whole configurations. A list of metrics becomes the arguments of
// NodeMetrics.
func configurations(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", page))
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

// The scheduler accepts every configuration in the docs. Each plugin has a page with one.
func TestDocs_Configurations(t *testing.T) {
	pages := []string{"README.md", "docs/configure.md"}
	for _, name := range config.PluginNames() {
		dashed := regexp.MustCompile("([a-z])([A-Z])").ReplaceAllString(name, "$1-$2")
		pages = append(pages, "docs/plugins/"+strings.ToLower(dashed)+".md")
	}
	for _, page := range pages {
		t.Run(page, func(t *testing.T) {
			all := configurations(t, page)
			if len(all) == 0 {
				t.Error("no configuration")
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

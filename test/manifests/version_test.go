package manifests_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// TestVersion expects the chart's version wherever a page names a version of Plimsoll: in tags of images, names of files and
// addresses. hack/set-version.sh sets it.
func TestVersion(t *testing.T) {
	var chart struct{ Version, AppVersion string }
	check.OK(t, yaml.Unmarshal(read(t, "manifests", "chart", "Chart.yaml"), &chart))
	check.Equal(t, fmt.Sprintf("Chart.yaml has version %s and appVersion", chart.Version), "v"+chart.Version, chart.AppVersion)
	named := regexp.MustCompile(`(?:plimsoll[:_-]|manifests_|tags/|download |download/|VERSION=)v?(\d+\.\d+\.\d+(?:-rc\.\d+)?)`)
	var found int
	for file, text := range filesBelow(t, ".", ".md") {
		if file != "README.md" && !strings.HasPrefix(file, "docs/") && !strings.HasPrefix(file, "manifests/") {
			continue
		}
		for _, match := range named.FindAllStringSubmatch(text, -1) {
			if found++; match[1] != chart.Version {
				t.Errorf("%s names %q, but the chart's version is %s", file, match[0], chart.Version)
			}
		}
	}
	if found == 0 {
		t.Errorf("no page names a version: %q", named)
	}
}

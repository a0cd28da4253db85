package manifests_test

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestVersion expects the chart's version wherever a page names a version of Plimsoll: in the tag of an image, the name
// of a file or an address. hack/set-version.sh sets it.
func TestVersion(t *testing.T) {
	var chart struct{ Version, AppVersion string }
	if err := yaml.Unmarshal(read(t, "manifests", "chart", "Chart.yaml"), &chart); err != nil {
		t.Fatal(err)
	}
	if chart.AppVersion != "v"+chart.Version {
		t.Errorf("Chart.yaml has version %s and appVersion %s", chart.Version, chart.AppVersion)
	}
	named := regexp.MustCompile(`(?:plimsoll[:_-]|manifests_|tags/|download |download/|VERSION=)v?(\d+\.\d+\.\d+(?:-rc\.\d+)?)`)
	files := []string{"README.md"}
	for _, folder := range []string{"docs", "manifests"} {
		if err := filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".md") {
				return err
			}
			file, err := filepath.Rel(root, path)
			files = append(files, file)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	var found int
	for _, file := range files {
		for _, match := range named.FindAllStringSubmatch(string(read(t, file)), -1) {
			if found++; match[1] != chart.Version {
				t.Errorf("%s names %q, but the chart's version is %s", file, match[0], chart.Version)
			}
		}
	}
	if found == 0 {
		t.Errorf("no page names a version: %q", named)
	}
}

package minors

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"
)

// The workflow of pull requests has a job for each older minor.
func TestWorkflow_OlderMinors(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, ".github", "workflows", "test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var workflow struct {
		Jobs map[string]struct {
			Strategy struct {
				Matrix struct{ Minor []string }
			}
		}
	}
	if err := yaml.Unmarshal(text, &workflow); err != nil {
		t.Fatal(err)
	}
	var want []string
	for file := range versions(t) {
		if file != "go.mod" {
			want = append(want, filepath.Base(filepath.Dir(file)))
		}
	}
	slices.Sort(want)
	if got := workflow.Jobs["older-minor"].Strategy.Matrix.Minor; !slices.Equal(got, want) {
		t.Errorf("the job older-minor has the minors %q, want %q", got, want)
	}
}

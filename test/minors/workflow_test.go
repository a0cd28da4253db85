package minors

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// The workflow of pull requests has a job for each minor but the default.
func TestWorkflow_OtherMinors(t *testing.T) {
	text := check.Value(os.ReadFile(filepath.Join(root, ".github", "workflows", "test.yaml")))(t)
	var workflow struct {
		Jobs map[string]struct {
			Strategy struct {
				Matrix struct{ Minor []string }
			}
		}
	}
	check.OK(t, yaml.Unmarshal(text, &workflow))
	var want []string
	for file := range versions(t) {
		if file != "go.mod" {
			want = append(want, filepath.Base(filepath.Dir(file)))
		}
	}
	slices.Sort(want)
	check.Equal(t, "the minors of the job other-minor", want, workflow.Jobs["other-minor"].Strategy.Matrix.Minor)
}

package whatif

import (
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func TestWhatIf_UsageErrors(t *testing.T) {
	file := check.File(t, "pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {continers: []}\n")
	for _, tc := range []struct {
		name string
		args []string
		want []string
	}{
		{"nothing", nil, []string{"nothing is asked", "--filename", "--drain"}},
		{"an argument", []string{"x"}, []string{"x"}},
		{"an unknown output", []string{"--pending", "-o", "xml"}, []string{"--output", `"xml"`}},
		{"replicas of nothing", []string{"--drain", "n", "--replicas", "3"}, []string{"--replicas", "--filename"}},
		{"a profile for nothing", []string{"--scheduler-name", "p"}, []string{"nothing is asked", "--drain"}},
		{"fewer of nothing", []string{"--drain", "n", "--fewer", "3"}, []string{"--fewer: only with --filename"}},
		{"fewer and replicas", []string{"-f", file, "--fewer", "3", "--replicas", "3"}, []string{"--fewer", "without --replicas"}},
		{"negative fewer", []string{"-f", file, "--fewer", "-1"}, []string{"--fewer: -1", "from 1 to 100000"}},
		{"negative replicas", []string{"-f", file, "--replicas", "-1"}, []string{"--replicas: -1", "from 0 to 100000"}},
		{"nodes like nothing", []string{"--add-nodes", "2"}, []string{"--add-nodes 2 --like worker-1"}},
		{"a model of no nodes", []string{"--like", "n", "--pending"}, []string{"--add-nodes and --like"}},
		{"no nodes", []string{"--add-nodes", "0", "--like", "n"}, []string{"--add-nodes: 0", "from 1"}},
		{"a negative timeout", []string{"--pending", "--timeout", "-1s"}, []string{"--timeout: -1s", "0 for no limit"}},
		{"an empty name", []string{"--pending", "--scheduler-name", ""}, []string{"--scheduler-name", "empty"}},
		{"a misspelled manifest", []string{"-f", file, "--server", "http://localhost:1"}, []string{"--filename", "pod.yaml", `unknown field "spec.continers"`}},
		{"no such manifest", []string{"-f", "/nowhere", "--server", "http://localhost:1"}, []string{"--filename", "/nowhere"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := check.Execute(t.Context(), Command(), tc.args...)
			if err == nil {
				t.Fatalf("error %v; want one", err)
			}
			check.Error(t, err, tc.want...)
		})
	}
}

package documented

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

const page = "Run `kubectl\nplimsoll top -o json`, or `helm` and `kubectl.io/x`.\n" + `
    $ kubectl plimsoll top | head
    kubectl get pods |
      while read -r pod; do
    kind: Pod
    sh apply.sh   # after you have read it

` + "```console\n$ bin/load-watcher \\\n    --max-age=1m\nNode `kubectl x`\n```\n"

func TestCommands(t *testing.T) {
	var got []string
	for _, command := range append(blocks(page), Inline(page)...) {
		if program.MatchString(command) {
			got = append(got, comment.ReplaceAllString(command, ""))
		}
	}
	want := []string{
		"kubectl plimsoll top | head", "kubectl get pods | while read -r pod; do", "sh apply.sh", "bin/load-watcher --max-age=1m",
		"kubectl plimsoll top -o json",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestProblems(t *testing.T) {
	root, top := &cobra.Command{Use: "plimsoll", Version: "1"}, &cobra.Command{Use: "top", Run: func(*cobra.Command, []string) {}}
	root.PersistentFlags().IntP("verbosity", "v", 0, "")
	top.Flags().Bool("watch", false, "")
	top.Flags().Int("limit", 0, "")
	root.AddCommand(top)
	for words, want := range map[string]int{
		"":                             0,
		"--version":                    0,
		"top --watch -v 3 --limit N a": 0,
		"top --limit=3 --help":         0,
		"<TAB>":                        0,
		"tip":                          1,
		"top --limits 3 -x":            2,
		"--watch":                      1,
	} {
		if got := problems(root, strings.Fields(words)); len(got) != want {
			t.Errorf("%q has the problems %q, want %d", words, got, want)
		}
	}
}

package upstream

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/incrementalpodtopologyspread"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

const root = "../.."

// tested is the plugin's package. As this test imports it, go test forgets its result when the plugin changes.
var tested = reflect.TypeFor[incrementalpodtopologyspread.IncrementalPodTopologySpread]().PkgPath()

// edits are what changes in Kubernetes' tests, so that they compile in the plugin's package beside testdata/adapter.go. In each of
// its minors, an edit must match somewhere.
var edits = []struct {
	from, to string
	// since and until are the first and the last minor with the text; empty for all.
	since, until string
}{
	{from: `(?m)^package podtopologyspread$`, to: "package incrementalpodtopologyspread"},
	// New of the plugin has other parameters.
	{from: `\bNew(\)|\(ctx, &tt\.config, f, )`, to: "newPlugin$1"},
	// The plugin keeps all features in one field.
	{from: `\.enable(\w+InPodTopologySpread) = `, to: ".features.Enable$1 = "},
	{
		from:  `\{enable(InPlacePodVerticalScalingSchedulerPreemption: true)\}`,
		to:    "{features: feature.Features{Enable$1}}",
		since: "1.37",
	},
	{from: `\.sharedLister\b`, to: ".lister"},
	// Only a benchmark uses the parallelizer, which the plugin does not need.
	{from: `p\.parallelizer\.Until\(ctx, len\(allNodes\), filterNode, ""\)`, to: "for i := range allNodes {\nfilterNode(i)\n}"},
	// The plugin inherits hints from the stock one, whose methods are hidden. Hints are found by the resource of their event.
	{from: `\bp\.isSchedulableAfter(\w+)Change\(`, to: `p.hint("$1", `},
	// No go.mod here requires testify. The functions of package check say the same; Equal also takes a name.
	{from: `"github\.com/stretchr/testify/require"`, to: `require "github.com/plimsoll-scheduler/plimsoll/test/check"`, until: "1.36"},
	{from: `\brequire\.NoError\(t, err\)`, to: "require.OK(t, err)", until: "1.36"},
	{from: `\brequire\.Equal\(t, tc`, to: `require.Equal(t, "hint", tc`, until: "1.36"},
	// The plugin's state has no domains without pods. The adapter finds them with the plugin's nodes and the pod.
	{from: `\b(got, err := getPreFilterState\(cs)\)`, to: "$1, p, tt.pod)"},
	{from: `\b(state, err := getPreFilterState\(cs)\)`, to: "$1, p, tt.preemptor)"},
	// Of critical paths, the plugin has only the minimum: not whose it is, nor the second one, which only serves to find the next
	// minimum.
	{from: `p1\[0\] == p2\[0\] && p1\[1\] == p2\[1\]`, to: "p1[0].MatchNum == p2[0].MatchNum"},
}

// build returns the flags of go that this test was built with, and the minor of Kubernetes.
func build(t *testing.T) (flags []string, minor string) {
	t.Helper()
	info, ok := debug.ReadBuildInfo()
	if !ok {
		t.Fatal("go test wrote no flags into this program")
	}
	mod := "go.mod"
	for _, setting := range info.Settings {
		if setting.Key != "-tags" && setting.Key != "-race" { // GOFLAGS and the environment have the others
			continue
		}
		flags = append(flags, setting.Key+"="+setting.Value)
		if match := regexp.MustCompile(`\bkubernetes_1_(\d+)\b`).FindStringSubmatch(setting.Value); match != nil {
			mod = filepath.Join("hack", "kubernetes", "1."+match[1], "go.mod")
			flags = append(flags, "-modfile="+mod)
		}
	}
	text := check.Value(os.ReadFile(filepath.Join(root, mod)))(t)
	match := regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes v(1\.\d+)\.`).FindSubmatch(text)
	if match == nil {
		t.Fatalf("%s requires no k8s.io/kubernetes", mod)
	}
	return flags, string(match[1])
}

func runGo(t *testing.T, subcommand string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{subcommand}, args...)...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "GOWORK=off")
	output, err := cmd.CombinedOutput()
	if err != nil {
		passes := regexp.MustCompile(`(?m)^(=== \w+|\s*--- PASS:) .*\n`)
		t.Fatalf("go %s %q: %v\n%s", subcommand, args, err, passes.ReplaceAll(output, nil))
	}
	return string(output)
}

// TestPodTopologySpread runs all tests of the stock PodTopologySpread on IncrementalPodTopologySpread, and all must pass. They take
// the place of the plugin's own tests for one run of go test: an overlay changes no file of the checkout.
func TestPodTopologySpread(t *testing.T) {
	flags, minor := build(t)
	list := append(slices.Clone(flags), "-f", "{{.Dir}}", "k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread")
	stock := check.Value(filepath.Glob(filepath.Join(strings.TrimSpace(runGo(t, "list", list...)), "*_test.go")))(t)
	own := filepath.Join(check.Value(filepath.Abs(root))(t), strings.TrimPrefix(tested, "github.com/plimsoll-scheduler/plimsoll/"))
	replace := map[string]string{}
	for _, file := range check.Value(filepath.Glob(filepath.Join(own, "*_test.go")))(t) {
		replace[file] = "" // as if it was not there
	}
	add := func(name, text string) {
		file := filepath.Join(t.TempDir(), name)
		check.OK(t, os.WriteFile(file, []byte(text), 0o600))
		replace[filepath.Join(own, name)] = file
	}
	add("adapter_test.go", string(check.Value(os.ReadFile(filepath.Join("testdata", "adapter.go")))(t)))
	found, want := make([]bool, len(edits)), []string{}
	for _, file := range stock {
		text := string(check.Value(os.ReadFile(file))(t))
		for i, edit := range edits {
			from := regexp.MustCompile(edit.from)
			found[i] = found[i] || from.MatchString(text)
			text = from.ReplaceAllString(text, edit.to)
		}
		for _, match := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(text, -1) {
			want = append(want, match[1])
		}
		add(filepath.Base(file), text)
	}
	for i, edit := range edits {
		if wanted := edit.since <= minor && (edit.until == "" || minor <= edit.until); wanted != found[i] {
			t.Errorf("tests of Kubernetes %s match %s: %t, want %t", minor, edit.from, found[i], wanted)
		}
	}
	overlay := filepath.Join(t.TempDir(), "overlay.json")
	check.OK(t, os.WriteFile(overlay, check.Value(json.Marshal(map[string]any{"Replace": replace}))(t), 0o600))

	output := runGo(t, "test", append(flags, "-v", "-vet=off", "-overlay="+overlay, tested)...)

	var passed []string
	for _, match := range regexp.MustCompile(`(?m)^--- PASS: (\w+)`).FindAllStringSubmatch(output, -1) {
		passed = append(passed, match[1])
	}
	slices.Sort(want)
	slices.Sort(passed)
	check.Equal(t, "passed tests", want, passed)
	t.Logf("Kubernetes %s: %d tests with %d subtests passed", minor, len(passed), strings.Count(output, "\n    --- PASS: "))
}

package upstream

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/incrementalinterpodaffinity"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/incrementalpodtopologyspread"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

const root = "../.."

// edit is what changes in Kubernetes' tests, so that they compile in the plugin's package beside the files of testdata. In each of its
// minors, an edit must match somewhere.
type edit struct {
	from, to string
	// since and until are the first and the last minor with the text; empty for all.
	since, until string
}

// edits are those of the tests of each plugin.
var edits = []edit{
	// New of the plugin has other parameters.
	{from: `\bNew(\)|\(ctx, &tt\.config, f, )`, to: "newPlugin$1"},
	// The plugin keeps all features in one field.
	{
		from:  `\{enable(InPlacePodVerticalScalingSchedulerPreemption: true)\}`,
		to:    "{features: feature.Features{Enable$1}}",
		since: "1.37",
	},
	{from: `\.sharedLister\b`, to: ".lister"},
	// The plugin inherits hints from the stock one, whose methods are hidden. Hints are found by the resource of their event.
	{from: `\bp\.isSchedulableAfter(\w+?)(Change|UpdateLabel)\(`, to: `p.hint("$1", `},
}

type plugin struct {
	// stock is the last element of the stock plugin's package, and tested is the package of the plugin that gives the same answers.
	stock, tested string
	edits         []edit
}

// plugins have their packages from an import: go test forgets the result of this test when a plugin changes.
var plugins = []plugin{
	{"podtopologyspread", reflect.TypeFor[incrementalpodtopologyspread.IncrementalPodTopologySpread]().PkgPath(), []edit{
		{from: `\.enable(\w+InPodTopologySpread) = `, to: ".features.Enable$1 = "},
		// Only a benchmark uses the parallelizer, which the plugin does not need.
		{from: `p\.parallelizer\.Until\(ctx, len\(allNodes\), filterNode, ""\)`, to: "for i := range allNodes {\nfilterNode(i)\n}"},
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
	}},
	// With the gate InterPodAffinityHostnameFastPath, the stock plugin decides. The adapter leaves the gate off, and the rows with the
	// gate pass as those without.
	{"interpodaffinity", reflect.TypeFor[incrementalinterpodaffinity.IncrementalInterPodAffinity]().PkgPath(), []edit{
		// Some rows have pods on nodes that no snapshot of a scheduler has: those without their object.
		{from: `\bcache\.NewSnapshot\((test\.pods, .*?)\)`, to: "cache.NewSnapshot(onNodes($1))"},
		// The tests see the state of the plugin, but its counts as the stock ones.
		{from: `\bcmp\.AllowUnexported\(preFilterState\{\}, .*`, to: "$0\nasStock,"},
		{from: `\bnewState\.(?:clusterWideA|a)(ffinity|ntiAffinity)Counts\b`, to: "stockCounts(newState.a$1)"},
		{from: `(?s)\bexisting(?:ClusterWide)?AntiAffinityCounts: (\w+\{.*?\n\t\t\}),`, to: "existing: $1.own(),"},
		{from: `(?s)\b(?:clusterWideA|a)(ffinity|ntiAffinity)Counts: (\w+\{.*?\n\t\t\}),`, to: "a$1: $2.own(),"},
		{
			from:  `(getIncomingAffinityAntiAffinityCounts\(ctx, podInfo)\.\w+\(\), podInfo\.\w+\(\), l\)`,
			to:    "$1, l)",
			since: "1.37",
		},
		// Three tests look into the stock plugin, which the plugin inherits the hints from. What they import alone stays imported.
		{
			from:  `(?s)\nfunc TestTermsNeedNamespaceLabels\(.*(\nfunc Test_isSchedulableAfterTargetPodUpdateLabel\()`,
			to:    "\nvar _, _ = errors.New, sets.New[string]\n$1",
			since: "1.38",
		},
	}},
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

// TestStockPlugins runs all tests of the stock plugins on the plugins here, and all must pass. They take the place of a plugin's own
// tests for one run of go test: an overlay changes no file of the checkout.
func TestStockPlugins(t *testing.T) {
	flags, minor := build(t)
	for _, p := range plugins {
		t.Run(p.stock, func(t *testing.T) {
			replace, want := p.overlay(t, flags, minor)
			overlay := check.File(t, "overlay.json", string(check.Value(json.Marshal(map[string]any{"Replace": replace}))(t)))

			output := runGo(t, "test", append(slices.Clone(flags), "-v", "-vet=off", "-overlay="+overlay, p.tested)...)

			var passed []string
			for _, match := range regexp.MustCompile(`(?m)^--- PASS: (\w+)`).FindAllStringSubmatch(output, -1) {
				passed = append(passed, match[1])
			}
			slices.Sort(want)
			slices.Sort(passed)
			check.Equal(t, "passed tests", want, passed)
			t.Logf("Kubernetes %s: %d tests with %d subtests passed", minor, len(passed), strings.Count(output, "\n    --- PASS: "))
		})
	}
}

// overlay returns the files that replace the tests of the plugin, and the names of the stock tests.
func (p plugin) overlay(t *testing.T, flags []string, minor string) (replace map[string]string, names []string) {
	t.Helper()
	own := filepath.Join(check.Value(filepath.Abs(root))(t), strings.TrimPrefix(p.tested, "github.com/plimsoll-scheduler/plimsoll/"))
	replace = map[string]string{}
	for _, file := range check.Value(filepath.Glob(filepath.Join(own, "*_test.go")))(t) {
		replace[file] = "" // as if it was not there
	}
	add := func(name, text string) {
		text = regexp.MustCompile(`(?m)^package \w+$`).ReplaceAllString(text, "package "+path.Base(p.tested))
		replace[filepath.Join(own, name)] = check.File(t, name, text)
	}
	for _, name := range []string{"adapter", p.stock} {
		add(name+"_test.go", string(check.Value(os.ReadFile(filepath.Join("testdata", name+".go")))(t)))
	}
	list := append(slices.Clone(flags), "-f", "{{.Dir}}", "k8s.io/kubernetes/pkg/scheduler/framework/plugins/"+p.stock)
	stock := check.Value(filepath.Glob(filepath.Join(strings.TrimSpace(runGo(t, "list", list...)), "*_test.go")))(t)
	all := slices.Concat(edits, p.edits)
	found := make([]bool, len(all))
	for _, file := range stock {
		text := string(check.Value(os.ReadFile(file))(t))
		for i, edit := range all {
			from := regexp.MustCompile(edit.from)
			found[i] = found[i] || from.MatchString(text)
			text = from.ReplaceAllString(text, edit.to)
		}
		for _, match := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(text, -1) {
			names = append(names, match[1])
		}
		add(filepath.Base(file), text)
	}
	for i, edit := range all {
		check.Equal(t, fmt.Sprintf("tests of Kubernetes %s match %s", minor, edit.from),
			edit.since <= minor && (edit.until == "" || minor <= edit.until), found[i])
	}
	return replace, names
}

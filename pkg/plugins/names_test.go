package plugins_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// placesWithNames may name a plugin: its arguments, its folder and the registry.
var placesWithNames = []string{"apis/config/", "pkg/plugins/registry.go"}

// templatesWithNames are plugins in templates, which cannot ask the registry, and the tests that compare them.
var templatesWithNames = map[string]string{
	"_helpers.tpl DecisionRecord":   "TestChart",
	"_helpers.tpl PredictedPeak":    "TestRBAC_MetricsServerOnlyIfRead", // the statistic
	"monitoring.yaml LoadThreshold": "TestAlertNamesPluginsThatFilter",
	"monitoring.yaml NodeMetrics":   "TestAlertNamesPluginsThatFilter",
}

// TestOnlyItsPlacesNameAPlugin finds names of plugins in product code: in identifiers, strings and imports. What other code needs
// to know of a plugin is in its descriptor.
func TestOnlyItsPlacesNameAPlugin(t *testing.T) {
	names := config.PluginNames()
	imported := regexp.MustCompile(`/pkg/plugins/(` + strings.ToLower(strings.Join(names, "|")) + `)[/"]`)
	identifier := regexp.MustCompile(`^(` + strings.Join(names, "|") + `)(Args)?$`)
	quoted := regexp.MustCompile(`(?m)(^|[^\w.])(` + strings.Join(names, "|") + `)(Args)?([^\w]|$)`)
	eachFile(t, []string{"apis", "cmd", "internal", "pkg"}, func(place, content string) {
		if filepath.Ext(place) != ".go" || strings.HasSuffix(place, "_test.go") || mayName(place, names) {
			return
		}
		fset := token.NewFileSet()
		file := check.Value(parser.ParseFile(fset, place, content, parser.SkipObjectResolution))(t)
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.SelectorExpr: // of apis/config
				if x, ok := node.X.(*ast.Ident); ok && (x.Name == "config" || x.Name == "v1") && identifier.MatchString(node.Sel.Name) {
					t.Errorf("%s: %s.%s: take it from the plugin's descriptor", fset.Position(node.Pos()), x.Name, node.Sel.Name)
				}
			case *ast.BasicLit:
				if node.Kind == token.STRING && (quoted.MatchString(node.Value) || imported.MatchString(node.Value)) {
					t.Errorf("%s: %s: take what it says from the plugin's descriptor", fset.Position(node.Pos()), node.Value)
				}
			}
			return true
		})
	})
}

// TestTemplatesNameAPlugin finds names of plugins in the chart's templates. A list of names has a test that compares it.
func TestTemplatesNameAPlugin(t *testing.T) {
	got := map[string]bool{}
	eachFile(t, []string{"manifests/chart/templates"}, func(place, content string) {
		for _, name := range config.PluginNames() {
			if regexp.MustCompile(`["|]` + name + `["|]`).MatchString(content) {
				got[filepath.Base(place)+" "+name] = true
			}
		}
	})
	check.Equal(t, "plugins in templates", slices.Sorted(maps.Keys(templatesWithNames)), slices.Sorted(maps.Keys(got)))
}

// TestContributing_PlacesOfAPlugin compares CONTRIBUTING's table with the files that a new plugin touches. A place is product code
// that names a similar plugin, or a line with all plugins that filter. So is a test that names all plugins that read load.
func TestContributing_PlacesOfAPlugin(t *testing.T) {
	content := check.Value(os.ReadFile(filepath.Join("..", "..", "CONTRIBUTING.md")))(t)
	_, section, _ := strings.Cut(string(content), "\n## A new plugin\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := regexp.MustCompile("(?m)^\\| (`[^|]*) \\|").FindAllStringSubmatch(section, -1)
	if len(rows) == 0 || len(rows) > 6 {
		t.Errorf("%d places, want at most 6", len(rows))
	}
	var want []string
	for _, row := range rows {
		for _, span := range regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(row[1], -1) {
			want = append(want, expand(span[1])...)
		}
	}
	want = slices.DeleteFunc(want, func(place string) bool { return strings.Contains(place, "<plugin>") })

	const like = config.LowRiskOverCommitment
	example, loading, filtering := namesOf(map[string]string{like: ""}), namesOf(kinds()), namesOf(limiters())
	var got []string
	eachFile(t, []string{"apis", "cmd", "internal", "pkg", "manifests/chart/templates"}, func(place, content string) {
		isPlace := namesAll(content, loading)
		if !strings.HasSuffix(place, "_test.go") {
			isPlace = namesAll(content, example) || namesAll(content, filtering) &&
				slices.ContainsFunc(strings.Split(content, "\n"), func(line string) bool { return namesAll(line, filtering) })
		}
		if isPlace && !isIn(place, like) {
			got = append(got, place)
		}
	})
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("places of a plugin (-CONTRIBUTING.md +tree):\n%s", diff)
	}
}

// namesOf match the names of plugins, of their arguments and of their packages.
func namesOf(plugins map[string]string) (all []*regexp.Regexp) {
	for name := range plugins {
		all = append(all, regexp.MustCompile(`\b(`+name+`|`+strings.ToLower(name)+`)(Args)?\b`))
	}
	return all
}

// namesAll reports whether the text matches all names.
func namesAll(text string, names []*regexp.Regexp) bool {
	return !slices.ContainsFunc(names, func(name *regexp.Regexp) bool { return !name.MatchString(text) })
}

// expand expands the braces of a pattern such as a/{b,c}.go.
func expand(pattern string) (all []string) {
	before, rest, found := strings.Cut(pattern, "{")
	if !found {
		return []string{pattern}
	}
	list, after, _ := strings.Cut(rest, "}")
	for item := range strings.SplitSeq(list, ",") {
		all = append(all, before+item+after)
	}
	return all
}

// eachFile calls read for each file below the roots that is not generated, and no data of tests.
func eachFile(t *testing.T, roots []string, read func(place, content string)) {
	t.Helper()
	for _, root := range roots {
		check.OK(t, filepath.WalkDir(filepath.Join("..", "..", root), func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && entry.Name() == "testdata":
				return fs.SkipDir
			case entry.IsDir() || strings.HasPrefix(entry.Name(), "zz_generated."):
				return nil
			}
			content, err := os.ReadFile(path)
			if err == nil {
				read(strings.TrimPrefix(filepath.ToSlash(path), "../../"), string(content))
			}
			return err
		}))
	}
}

// mayName reports whether a file may name plugins.
func mayName(place string, names []string) bool {
	return slices.ContainsFunc(placesWithNames, func(prefix string) bool { return strings.HasPrefix(place, prefix) }) ||
		slices.ContainsFunc(names, func(name string) bool { return isIn(place, name) })
}

// isIn reports whether a file is in the folder of the plugin.
func isIn(place, plugin string) bool {
	return strings.HasPrefix(place, "pkg/plugins/"+strings.ToLower(plugin)+"/")
}

// TestAlertNamesPluginsThatFilter compares the chart's alert of pods that wait for load with the plugins that filter. A chart cannot
// ask the registry.
func TestAlertNamesPluginsThatFilter(t *testing.T) {
	content := check.Value(os.ReadFile(filepath.Join("..", "..", "manifests", "chart", "templates", "monitoring.yaml")))(t)
	found := regexp.MustCompile(`scheduler_unschedulable_pods\{plugin=~"([^"]*)"\}`).FindSubmatch(content)
	if found == nil {
		t.Fatal("no alert selects scheduler_unschedulable_pods by plugin")
	}
	check.Equal(t, "plugins of the alert", slices.Sorted(maps.Keys(limiters())), strings.Split(string(found[1]), "|"))
}

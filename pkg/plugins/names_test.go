package plugins_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
)

// placesWithNames may name a plugin: its arguments, its folder and the registry.
var placesWithNames = []string{"apis/config/", "pkg/plugins/registry.go"}

// TestOnlyItsPlacesNameAPlugin finds names of plugins in identifiers and in strings of product code. What other code needs to know
// of a plugin is in its descriptor.
func TestOnlyItsPlacesNameAPlugin(t *testing.T) {
	var names []string
	for _, d := range plugins.All() {
		names = append(names, d.Name)
	}
	identifier := regexp.MustCompile(`^(` + strings.Join(names, "|") + `)(Args)?$`)
	quoted := regexp.MustCompile(`(?m)(^|[^\w.])(` + strings.Join(names, "|") + `)(Args)?([^\w]|$)`)
	for _, root := range []string{"apis", "cmd", "internal", "pkg"} {
		err := filepath.WalkDir(filepath.Join("..", "..", root), func(path string, entry fs.DirEntry, err error) error {
			place := strings.TrimPrefix(filepath.ToSlash(path), "../../")
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || mayName(place, names) {
				return err
			}
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(node ast.Node) bool {
				switch node := node.(type) {
				case *ast.SelectorExpr: // of apis/config
					if x, ok := node.X.(*ast.Ident); ok && (x.Name == "config" || x.Name == "v1") && identifier.MatchString(node.Sel.Name) {
						t.Errorf("%s: %s.%s: take it from the plugin's descriptor", fset.Position(node.Pos()), x.Name, node.Sel.Name)
					}
				case *ast.BasicLit:
					if node.Kind == token.STRING && quoted.MatchString(node.Value) {
						t.Errorf("%s: %s: take the name from the plugin's descriptor", fset.Position(node.Pos()), node.Value)
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// mayName reports whether a file may name plugins.
func mayName(place string, names []string) bool {
	return slices.ContainsFunc(placesWithNames, func(prefix string) bool { return strings.HasPrefix(place, prefix) }) ||
		slices.ContainsFunc(names, func(name string) bool {
			return strings.HasPrefix(place, "pkg/plugins/"+strings.ToLower(name)+"/")
		})
}

// TestAlertNamesPluginsThatFilter compares the chart's alert of pods that wait for load with the plugins that filter. A chart cannot
// ask the registry.
func TestAlertNamesPluginsThatFilter(t *testing.T) {
	content, err := os.ReadFile(filepath.Join("..", "..", "manifests", "chart", "templates", "monitoring.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`scheduler_unschedulable_pods\{plugin=~"([^"]*)"\}`).FindSubmatch(content)
	if found == nil {
		t.Fatal("no alert selects scheduler_unschedulable_pods by plugin")
	}
	var want []string
	for _, d := range plugins.All() {
		if d.Limits(nil).Filters {
			want = append(want, d.Name)
		}
	}
	if diff := cmp.Diff(want, strings.Split(string(found[1]), "|")); diff != "" {
		t.Errorf("plugins of the alert (-filter +alert):\n%s", diff)
	}
}

package minors

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

const root = "../.."

var (
	required  = regexp.MustCompile(`(?m)^\s*(?:require )?k8s\.io/kubernetes (v1\.\d+\.\d+(?:-\S+)?)$`)
	toolchain = regexp.MustCompile(`(?m)^toolchain (\S+)$`)
)

func version(t *testing.T, mod string) string {
	t.Helper()
	match := required.FindStringSubmatch(mod)
	if match == nil {
		t.Fatalf("no version of Kubernetes:\n%s", mod)
	}
	return match[1]
}

// toolchainOf returns the Go that a go.mod needs, if it is newer than the default.
func toolchainOf(t *testing.T, file string) string {
	t.Helper()
	if match := toolchain.FindSubmatch(check.Value(os.ReadFile(filepath.Join(root, file)))(t)); match != nil {
		return string(match[1])
	}
	return ""
}

func versions(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "hack", "kubernetes", "*", "go.mod"))
	if err != nil || len(files) == 0 {
		t.Fatalf("go.mod of other minors: %v, %v", files, err)
	}
	byFile := map[string]string{}
	for _, file := range append(files, filepath.Join(root, "go.mod")) {
		text := check.Value(os.ReadFile(file))(t)
		name, _ := filepath.Rel(root, file) // it is below
		byFile[name] = version(t, string(text))
	}
	return byFile
}

// printingGo returns a folder with a go that prints GOTOOLCHAIN and the arguments of go build. It runs all other commands.
func printingGo(t *testing.T) string {
	t.Helper()
	program := check.Value(exec.LookPath("go"))(t)
	dir := t.TempDir()
	script := "#!/bin/sh\nif [ \"$1\" = build ]; then printf \"GOTOOLCHAIN=%s \" \"$GOTOOLCHAIN\"; for argument; do printf \"'%s' \" \"$argument\"; done; else exec '" + program + "' \"$@\"; fi\n"
	check.OK(t, os.WriteFile(filepath.Join(dir, "go"), []byte(script), 0o700))
	return dir
}

// makeOutput runs make without the variables of a make that runs this test. It returns all output.
func makeOutput(t *testing.T, args ...string) (string, error) {
	t.Helper()
	// go test caches a result until a file that the test itself has opened changes.
	check.Value(os.ReadFile(filepath.Join(root, "Makefile")))(t)
	cmd := exec.CommandContext(t.Context(), "make", append([]string{"VERSION=v1.2.3"}, args...)...)
	cmd.Dir = root
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains([]string{"KUBERNETES", "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "GOFLAGS", "GOTOOLCHAIN"}, name)
	})
	cmd.Env = append(cmd.Env, "PATH="+printingGo(t)+string(os.PathListSeparator)+os.Getenv("PATH"))
	output, err := cmd.CombinedOutput()
	return string(output), err
}

// minorOf returns 1.37 for v1.37.1.
func minorOf(version string) string {
	return strings.Join(strings.Split(strings.TrimPrefix(version, "v"), ".")[:2], ".")
}

func TestMakefile_BuildOfMinor(t *testing.T) {
	for file, version := range versions(t) {
		minor := minorOf(version)
		want := []string{
			"-X main.version=v1.2.3 ", "-X k8s.io/component-base/version.gitVersion=" + version + " ",
			"-X k8s.io/component-base/version.gitMajor=1 ",
			"-X k8s.io/component-base/version.gitMinor=" + strings.TrimPrefix(minor, "1.") + "'",
		}
		commands := [][]string{{"build", "KUBERNETES=" + minor}}
		var unwanted []string
		if file == "go.mod" {
			commands = append(commands, []string{"build"}, []string{"build", "KUBERNETES="})
			want = append(want, "'-o' 'bin/' ")
			unwanted = []string{"-modfile", "-tags"}
			want = append(want, "GOTOOLCHAIN= ")
		} else {
			want = append(want, "'-modfile="+file+"' ", "'-tags=kubernetes_"+strings.ReplaceAll(minor, ".", "_")+"' ",
				"'-o' 'bin/"+minor+"/' ", "GOTOOLCHAIN="+toolchainOf(t, file)+" ")
		}
		for _, command := range commands {
			t.Run(strings.Join(command, " "), func(t *testing.T) {
				output, err := makeOutput(t, command...)
				if err != nil {
					t.Fatalf("%v:\n%s", err, output)
				}
				check.Contains(t, output, want...)
				for _, part := range unwanted {
					check.Lacks(t, output, part)
				}
			})
		}
	}
}

// A release has no previews.
func TestMakefile_Release(t *testing.T) {
	output, err := makeOutput(t, "-p", "-n", "release")
	check.OK(t, err)
	var want []string
	for _, version := range versions(t) {
		if !strings.Contains(version, "-") {
			want = append(want, minorOf(version))
		}
	}
	slices.Sort(want)
	match := regexp.MustCompile(`(?m)^release: KUBERNETES_MINORS := (.*)$`).FindStringSubmatch(output)
	if match == nil {
		t.Fatalf("make has no KUBERNETES_MINORS:\n%s", output)
	}
	check.Equal(t, "minors of a release", want, strings.Fields(match[1]))
}

func TestMakefile_RefusesKubernetes(t *testing.T) {
	var older []string
	for file, version := range versions(t) {
		if file != "go.mod" {
			older = append(older, minorOf(version))
		}
	}
	slices.Sort(older)
	newest := minorOf(versions(t)["go.mod"])
	for _, tt := range []struct {
		name, target, kubernetes string
		// want is a part of the error; empty means that make runs.
		want string
	}{
		{"a minor that there is not", "build", "1.7", `KUBERNETES is "1.7", but must be one of `},
		{"two minors", "build", older[0] + " " + newest, `KUBERNETES is "` + older[0] + " " + newest + `", but must be one of `},
		{"linting an older minor", "lint", older[0], "make lint does not take KUBERNETES: leave out KUBERNETES=" + older[0]},
		{"an older minor's benchmarks", "bench-quick", older[0], "make bench-quick does not take KUBERNETES"},
		{"one of two targets", "build quality", older[0], "make quality does not take KUBERNETES"},
		{"the help for an older minor", "", older[0], ""},
		{"linting the newest minor", "lint", newest, ""},
		{"the tests of an older minor", "test", older[0], ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			output, err := makeOutput(t, append(strings.Fields("-n "+tt.target), "KUBERNETES="+tt.kubernetes)...)
			if (err != nil) != (tt.want != "") || !strings.Contains(output, tt.want) {
				t.Errorf("%v, want an error with %q:\n%s", err, tt.want, output)
			}
		})
	}
}

package minors

import (
	"archive/zip"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// tree is a copy of hack/kubernetes.sh in a small module, with a module proxy of its own.
type tree struct{ dir, proxy, cache string }

func newTree(t *testing.T) tree {
	t.Helper()
	tr := tree{t.TempDir(), t.TempDir(), t.TempDir()}
	script := check.Value(os.ReadFile("../../hack/kubernetes.sh"))(t)
	write(t, filepath.Join(tr.dir, "hack", "kubernetes.sh"), string(script))
	write(t, filepath.Join(tr.dir, "m.go"), "package m\n\nimport _ \"k8s.io/kubernetes\"\n")
	write(t, filepath.Join(tr.dir, "go.mod"), "module example.com/m\n\ngo 1.24\n\nrequire (\n\tk8s.io/kubernetes v1.37.0\n)\n")
	write(t, filepath.Join(tr.dir, "hack", "kubernetes", "1.36", "go.mod"),
		"module example.com/m\n\ngo 1.24\n\nrequire k8s.io/kubernetes v1.36.0\n")
	t.Cleanup(func() { // files of the cache are read-only
		if output, err := tr.command(t, "go", "clean", "-modcache").CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, output)
		}
	})
	return tr
}

// serve adds a version of Kubernetes to the proxy, with its staging module or without.
func (tr tree) serve(t *testing.T, patch string, staging bool) {
	t.Helper()
	tr.serveModule(
		t, "k8s.io/kubernetes", "v1."+patch,
		"module k8s.io/kubernetes\n\ngo 1.24\n\nrequire (\n\tk8s.io/api v0.0.0\n)\n\nreplace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n)\n",
		"package kubernetes\n\nimport _ \"k8s.io/api\"\n",
	)
	if staging {
		tr.serveModule(t, "k8s.io/api", "v0."+patch, "module k8s.io/api\n\ngo 1.24\n", "package api\n")
	}
}

func (tr tree) serveModule(t *testing.T, module, version, mod, source string) {
	t.Helper()
	base := filepath.Join(tr.proxy, module, "@v", version)
	write(t, base+".info", `{"Version": "`+version+`"}`)
	write(t, base+".mod", mod)
	file := check.Value(os.Create(base + ".zip"))(t)
	defer func() { _ = file.Close() }() // Close of the archive has flushed it
	archive := zip.NewWriter(file)
	for name, content := range map[string]string{"go.mod": mod, "source.go": source} {
		w, err := archive.Create(module + "@" + version + "/" + name)
		if err == nil {
			_, err = w.Write([]byte(content))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	check.OK(t, archive.Close())
}

func (tr tree) command(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(name, args...) // of a cleanup, too, when t.Context() has ended
	cmd.Dir = tr.dir
	cmd.Env = append(os.Environ(), "GOPROXY=file://"+tr.proxy, "GOSUMDB=off", "GONOPROXY=none", "GOTOOLCHAIN=local",
		"GOMODCACHE="+tr.cache)
	return cmd
}

func (tr tree) move(t *testing.T, version string) (output string, err error) {
	t.Helper()
	text, err := tr.command(t, "bash", "hack/kubernetes.sh", version).CombinedOutput()
	return string(text), err
}

func (tr tree) files(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(tr.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(tr.dir, path) // it is below
		files[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func (tr tree) wantVersions(t *testing.T, patches map[string]string) {
	t.Helper()
	got := map[string]string{}
	for name, text := range tr.files(t) {
		if filepath.Base(name) != "go.mod" {
			continue
		}
		got[name] = version(t, text)
		if staging := "k8s.io/api => k8s.io/api v0." + strings.TrimPrefix(got[name], "v1."); !strings.Contains(text, staging) {
			t.Errorf("%s has no %q:\n%s", name, staging, text)
		}
	}
	check.Equal(t, "", patches, got)
}

func TestKubernetesScript(t *testing.T) {
	const older = "hack/kubernetes/1.36/go.mod"
	tr := newTree(t)
	tr.serve(t, "37.0", true)
	tr.serve(t, "37.1", true)
	tr.serve(t, "36.0", false)

	for _, tt := range []struct{ name, version, refused, reason string }{
		{"a version that the proxy does not have", "v1.38.0", "v1.38.0", "k8s.io/kubernetes@v1.38.0"},
		{"an older minor at a version whose staging module is refused", "v1.37.1", "v1.36.0", "k8s.io/api@v0.36.0"},
		{"no version", "1.37", "1.37", "is not a version of Kubernetes"},
	} {
		t.Run(tt.name+" changes nothing", func(t *testing.T) {
			before := maps.Clone(tr.files(t))
			output, err := tr.move(t, tt.version)
			if err == nil {
				t.Errorf("no error:\n%s", output)
			}
			if !strings.Contains(output, tt.reason) || !strings.Contains(output, tt.refused) ||
				!strings.Contains(output, "hack/kubernetes.sh: ") {
				t.Errorf("the output names not both %s and %q:\n%s", tt.refused, tt.reason, output)
			}
			if diff := cmp.Diff(before, tr.files(t)); diff != "" {
				t.Errorf("the tree has changed (-before +after):\n%s", diff)
			}
		})
	}

	t.Run("an older minor moves alone", func(t *testing.T) {
		tr.serve(t, "36.1", true)
		if output, err := tr.move(t, "v1.36.1"); err != nil {
			t.Fatalf("%v:\n%s", err, output)
		}
		check.Equal(t, "the newest minor", "v1.37.0", version(t, tr.files(t)["go.mod"]))
		check.Equal(t, "the older minor", "v1.36.1", version(t, tr.files(t)[older]))
	})
	t.Run("the newest minor moves, and the others are generated again", func(t *testing.T) {
		if output, err := tr.move(t, "v1.37.1"); err != nil {
			t.Fatalf("%v:\n%s", err, output)
		}
		tr.wantVersions(t, map[string]string{"go.mod": "v1.37.1", older: "v1.36.1"})
	})
	t.Run("a new newest minor leaves a go.mod of the one before", func(t *testing.T) {
		tr.serve(t, "38.2", true)
		if output, err := tr.move(t, "v1.38.2"); err != nil {
			t.Fatalf("%v:\n%s", err, output)
		}
		tr.wantVersions(t, map[string]string{"go.mod": "v1.38.2", "hack/kubernetes/1.37/go.mod": "v1.37.1", older: "v1.36.1"})
	})
}

func TestKubernetesScript_ToolsShareVersions(t *testing.T) {
	const lib, tool = "example.com/lib", "example.com/tool"
	tr := newTree(t)
	tr.serve(t, "37.0", true)
	tr.serve(t, "36.0", true)
	for _, version := range []string{"v1.0.0", "v1.1.0"} {
		tr.serveModule(t, lib, version, "module "+lib+"\n\ngo 1.24\n", "package lib\n")
	}
	// The tool was made with an older k8s.io/api, and with a newer lib.
	requirements := "require (\n\texample.com/lib v1.1.0\n\tk8s.io/api v0.36.0\n)\n"
	tr.serveModule(t, tool, "v1.0.0", "module "+tool+"\n\ngo 1.24\n\n"+requirements,
		"package main\n\nimport (\n\t_ \""+lib+"\"\n\t_ \"k8s.io/api\"\n)\n\nfunc main() {}\n")
	folders := []string{"hack/tools/helm", "test/cluster/parts/any"}
	for _, folder := range folders {
		write(t, filepath.Join(tr.dir, folder, "go.mod"),
			"module example.com/m/tool\n\ngo 1.24\n\ntool "+tool+"\n\nrequire "+tool+" v1.0.0 // indirect\n"+requirements+
				"exclude (\n\texample.com/old v1.0.0\n\texample.com/old v1.1.0\n)\n")
		write(t, filepath.Join(tr.dir, folder, "go.sum"), "")
	}

	for _, tt := range []struct {
		root     string
		excluded bool
	}{
		{"v1.0.0", true}, {"v1.0.0", true}, {"v1.1.0", false},
	} {
		write(t, filepath.Join(tr.dir, "m.go"), "package m\n\nimport (\n\t_ \""+lib+"\"\n\t_ \"k8s.io/kubernetes\"\n)\n")
		write(t, filepath.Join(tr.dir, "go.mod"),
			"module example.com/m\n\ngo 1.24\n\nrequire (\n\t"+lib+" "+tt.root+"\n\tk8s.io/kubernetes v1.37.0\n)\n")
		if output, err := tr.move(t, "v1.37.0"); err != nil {
			t.Fatalf("%v:\n%s", err, output)
		}
		for _, folder := range folders {
			got := tr.files(t)[folder+"/go.mod"]
			for text, want := range map[string]bool{
				"\t" + tool + " v1.0.0": true, "\tk8s.io/api v0.37.0": true, "\t" + lib + " " + tt.root: true, "exclude " + lib + " v1.1.0": tt.excluded,
				"example.com/old": false,
			} {
				if strings.Contains(got, text) != want {
					t.Errorf("with lib %s in the root, %s/go.mod has %q: %t, want %t:\n%s", tt.root, folder, text, !want, want, got)
				}
			}
		}
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	check.OK(t, os.MkdirAll(filepath.Dir(file), 0o755))
	check.OK(t, os.WriteFile(file, []byte(text), 0o600))
}

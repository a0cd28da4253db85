package build

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// TestStamp holds that the stamp names everything that requires a new build.
func TestStamp(t *testing.T) {
	part := Part{Name: "x", Package: "example.com/x/cmd/x"}
	got := stamp(part, "v1.2.3", "linux/arm64", []string{"-tags=a,b", "-ldflags=-X c=d"})
	want := "package example.com/x/cmd/x\nversion v1.2.3\nplatform linux/arm64\nflag -tags=a,b\nflag -ldflags=-X c=d\n"
	check.Equal(t, "stamp", want, got)
}

func TestUpToDate(t *testing.T) {
	const want = "package p\nversion v1.2.3\n"
	tests := []struct {
		name string
		// binary is the mode of the program's file; 0 means that there is none.
		binary os.FileMode
		// stamp is the text beside the program; empty means that there is none.
		stamp string
		// want is what upToDate returns.
		want bool
	}{
		{name: "there is no program"},
		{name: "a stamp without its program", stamp: want},
		{name: "a program without a stamp", binary: 0o755},
		{name: "a program of another version", binary: 0o755, stamp: "package p\nversion v1.2.2\n"},
		{name: "a stamp that is incomplete", binary: 0o755, stamp: "package p\n"},
		{name: "a program that cannot be executed", binary: 0o644, stamp: want},
		{name: "a program with its stamp", binary: 0o755, stamp: want, want: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			binary := filepath.Join(t.TempDir(), "p")
			if tt.binary != 0 {
				writeFile(t, binary, "program", tt.binary)
			}
			if tt.stamp != "" {
				writeFile(t, stampPath(binary), tt.stamp, 0o644)
			}
			got, err := upToDate(binary, want)
			if err != nil || got != tt.want {
				t.Errorf("upToDate() = %v, %v; want %v", got, err, tt.want)
			}
		})
	}
}

func TestPartFlags(t *testing.T) {
	const versions = " -X k8s.io/component-base/version.gitVersion=v1.36.3" +
		" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"
	tests := []struct {
		name string
		part Part
		want []string
	}{
		{name: "a program of another module needs no flags", part: Part{Module: "m"}},
		{name: "tags are joined by commas", part: Part{Module: "m", Tags: []string{"a", "b"}}, want: []string{"-tags=a,b"}},
		{name: "a program of this repository gets its version", part: Part{}, want: []string{"-ldflags=-X main.version=v0.1.0" + versions}},
		{name: "the race detector", part: Part{Race: true}, want: []string{"-race", "-ldflags=-X main.version=v0.1.0" + versions}},
		{name: "a component of Kubernetes gets its version", part: Kubectl(), want: []string{"-ldflags=" + versions[1:]}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := check.Value(tt.part.flags("v1.36.3", "v0.1.0"))(t)
			check.Equal(t, "flags", tt.want, got)
		})
	}
	for _, version := range []string{"", "1.36.3", "v1.36", "master"} {
		if _, err := Kubectl().flags(version, ""); err == nil {
			t.Errorf("flags(%q) returned no error", version)
		}
	}
}

func TestFindRoot(t *testing.T) {
	// The working directory is in the repository, wherever the program is.
	root := check.Value(findRoot(t.Context(), "/elsewhere/bin/playground"))(t)
	if _, err := os.Stat(filepath.Join(root, "test", "cluster", "build", "build_test.go")); err != nil {
		t.Errorf("%s is not the root of this repository: %v", root, err)
	}
	t.Chdir(t.TempDir())
	if got, err := findRoot(t.Context(), filepath.Join(root, "bin", "playground")); err != nil || got != root {
		t.Errorf("from another folder the root is %q, %v; want %s", got, err, root)
	}
	if got, err := findRoot(t.Context(), "/elsewhere/bin/playground"); err == nil {
		t.Errorf("neither the folder nor the program is in the repository, but its root is %q", got)
	}
}

func TestBuild_SkipsUpToDate(t *testing.T) {
	b, out := newBuilder(t)
	part := Part{Name: "p", Package: "example.com/none", Module: "example.com/m"}
	b.versions[[2]string{"", "example.com/m"}] = "v1.2.3"
	binary := filepath.Join(b.BinDir(), "p")
	writeFile(t, binary, "program", 0o755)
	writeFile(t, stampPath(binary), stamp(part, "v1.2.3", platform(), nil), 0o644)
	check.OK(t, b.Build(t.Context(), part))
	if out.Len() != 0 {
		t.Errorf("Build() reported %q for a program that is up to date", out)
	}
}

// TestBuild_LinksOnlyWhatChanged tells by the file whether a program was linked. A new file replaces the old one, which may be
// running.
func TestBuild_LinksOnlyWhatChanged(t *testing.T) {
	b, out := newBuilder(t)
	build := func() os.FileInfo {
		t.Helper()
		if err := b.Build(t.Context(), Part{Name: "own", Package: "."}); err != nil {
			t.Fatalf("Build() = %v\n%s", err, out)
		}
		return check.Value(os.Stat(filepath.Join(b.BinDir(), "own")))(t)
	}
	first := build()
	if second := build(); !os.SameFile(first, second) {
		t.Error("a program that is up to date was linked")
	}
	// While it is open, no other file gets its inode.
	running := check.Value(os.Open(filepath.Join(b.BinDir(), "own")))(t)
	defer func() { _ = running.Close() }()
	writeFile(t, filepath.Join(b.Root(), "main.go"), "package main\n\nfunc main() { println() }\n", 0o644)
	if second := build(); os.SameFile(first, second) {
		t.Error("the file of a running program was written to, or an outdated program was not linked")
	}
	wantFiles(t, b.BinDir(), "own")
}

func TestBuild_OlderMinor(t *testing.T) {
	b, out := newBuilder(t)
	writeFile(t, filepath.Join(b.Root(), "hack", "kubernetes", "1.35", "go.mod"), "module example.com/test\n\ngo 1.26\n", 0o644)
	if err := b.choose(t.Context(), "1.34"); err == nil {
		t.Error("choose() of a minor version without a go.mod returned no error")
	}
	if err := b.choose(t.Context(), "1.36"); err != nil || b.BinDir() != filepath.Join(b.Root(), "bin") {
		t.Errorf("choose() of the newest = %v, with programs in %s", err, b.BinDir())
	}
	if err := b.choose(t.Context(), "1.35"); err != nil || b.BinDir() != filepath.Join(b.Root(), "bin", "1.35") {
		t.Fatalf("choose() = %v, with programs in %s", err, b.BinDir())
	}
	b.versions[[2]string{"", kubernetesModule}] = "v1.35.4"

	// The source for 1.36 would not compile.
	writeFile(t, filepath.Join(b.Root(), "main.go"), "//go:build kubernetes_1_35\n\npackage main\n\nfunc main() {}\n", 0o644)
	// A program of another module is the same for all minor versions.
	shared := filepath.Join(b.Root(), "bin", "shared")
	part := Part{Name: "shared", Package: ".", Module: "example.com/test", Dir: "other"}
	writeFile(t, filepath.Join(b.Root(), "other", "go.mod"), "module example.com/test\n\ngo 1.26\n", 0o644)
	writeFile(t, shared, "program", 0o755)
	wanted := check.Value(b.stampOf(part, "", nil))(t)
	writeFile(t, stampPath(shared), wanted, 0o644)
	for range 2 {
		if err := b.Build(t.Context(), Part{Name: "own", Package: "."}, part); err != nil {
			t.Fatalf("Build() = %v\n%s", err, out)
		}
	}
	wantFiles(t, b.BinDir(), "own", "shared")
	// Its libraries have other versions now.
	writeFile(t, filepath.Join(b.Root(), "other", "go.mod"), "module example.com/test\n\ngo 1.26\n\n// other libraries\n", 0o644)
	if got, err := b.stampOf(part, "", nil); err != nil || got == wanted {
		t.Errorf("stampOf() = %q, %v, the same as with another go.mod", got, err)
	}
}

func TestBuild_FailureRemovesOnlyTheStamp(t *testing.T) {
	b, _ := newBuilder(t)
	part := Part{Name: "p", Package: "./none", Module: "example.com/m"}
	b.versions[[2]string{"", "example.com/m"}] = "v1.2.4"
	binary := filepath.Join(b.BinDir(), "p")
	writeFile(t, binary, "program", 0o755)
	writeFile(t, stampPath(binary), stamp(part, "v1.2.3", platform(), nil), 0o644)
	if err := b.Build(t.Context(), part); err == nil {
		t.Fatal("Build() of a package that does not exist returned no error")
	}
	wantFiles(t, b.BinDir(), "p")
}

func TestBuild_EndsWithContext(t *testing.T) {
	b, _ := newBuilder(t)
	b.versions[[2]string{"", "example.com/m"}] = "v1.2.3"
	cause := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	err := b.Build(ctx, Part{Name: "p", Package: ".", Module: "example.com/m"})
	if !errors.Is(err, cause) {
		t.Errorf("Build() = %v, want %v", err, cause)
	}
	wantFiles(t, b.BinDir())
}

func newBuilder(t *testing.T) (*Builder, *bytes.Buffer) {
	t.Helper()
	root := t.TempDir()
	writeFile(t, filepath.Join(root, "go.mod"), "module example.com/test\n\ngo 1.26\n", 0o644)
	writeFile(t, filepath.Join(root, "main.go"), "package main\n\nfunc main() {}\n", 0o644)
	out := &bytes.Buffer{}
	b := &Builder{root: root, out: out, versions: map[[2]string]string{{"", kubernetesModule}: "v1.36.3"}}
	check.OK(t, os.Mkdir(b.BinDir(), 0o755))
	return b, out
}

func wantFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries := check.Value(os.ReadDir(dir))(t)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	check.Equal(t, "files", want, got)
}

func writeFile(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	check.OK(t, os.MkdirAll(filepath.Dir(name), 0o755))
	check.OK(t, os.WriteFile(name, []byte(text), mode))
}

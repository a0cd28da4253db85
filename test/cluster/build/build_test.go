package build

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

const versions = " -X k8s.io/component-base/version.gitVersion=v1.37.3" +
	" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37"

// repository is a copy of the script in a repository of two minors of Kubernetes. A stub of go writes each of its calls to a file.
type repository struct {
	*testing.T
	root string
}

func newRepository(t *testing.T) repository {
	t.Helper()
	r := repository{t, t.TempDir()}
	script := check.Value(exec.CommandContext(t.Context(), "go", "env", "GOMOD").Output())(t)
	r.write("hack/parts.sh", string(check.Value(os.ReadFile(filepath.Join(filepath.Dir(string(script)), "hack", "parts.sh")))(t)), 0o755)
	r.write("go.mod", "module example.com/test\n\nrequire (\n\tgo.etcd.io/etcd/server/v3 v3.7.0 // indirect\n\tk8s.io/kubernetes v1.37.3\n)\n", 0o644)
	r.write("hack/kubernetes/1.35/go.mod", "module example.com/test\n\nrequire k8s.io/kubernetes v1.35.4\n", 0o644)
	r.write("hack/kubernetes/1.38/go.mod", "module example.com/test\n\ntoolchain go1.27.3\n\nrequire k8s.io/kubernetes v1.38.0-beta.0\n\n"+
		"exclude (\n\tk8s.io/apiextensions-api v0.38.0-beta.0\n)\n", 0o644)
	r.write("test/cluster/parts/kwok/go.mod", "module example.com/kwok\n\nrequire sigs.k8s.io/kwok v0.8.0\n", 0o644)
	r.write("stubs/go", `#!/bin/sh
if [ "$1" = env ]; then echo linux; echo arm64; exit; fi
echo "$CGO_ENABLED $*" >>"$ROOT/calls"
while [ "$1" != -o ]; do shift; done
[ ! -e "$ROOT/fails" ] && echo program >"$2" && chmod +x "$2"
`, 0o755)
	t.Setenv("ROOT", r.root)
	t.Setenv("PATH", filepath.Join(r.root, "stubs")+":"+os.Getenv("PATH"))
	return r
}

func (r repository) write(name, text string, mode os.FileMode) {
	r.Helper()
	name = filepath.Join(r.root, name)
	check.OK(r, os.MkdirAll(filepath.Dir(name), 0o755))
	check.OK(r, os.WriteFile(name, []byte(text), mode))
}

func (r repository) read(name string) string {
	r.Helper()
	return string(check.Value(os.ReadFile(filepath.Join(r.root, name)))(r))
}

// build builds programs for a minor, and returns the folder and the calls of go build since the last build.
func (r repository) build(kubernetes string, names ...string) (dir string, calls []string) {
	r.Helper()
	_ = os.Remove(filepath.Join(r.root, "calls"))
	cmd := exec.CommandContext(r.Context(), filepath.Join(r.root, "hack", "parts.sh"), names...)
	cmd.Env = append(os.Environ(), "KUBERNETES="+kubernetes)
	dir = strings.TrimSpace(string(check.Value(cmd.Output())(r)))
	if log, err := os.ReadFile(filepath.Join(r.root, "calls")); err == nil {
		calls = strings.Split(strings.TrimSpace(string(log)), "\n")
	}
	return strings.TrimPrefix(dir, r.root+"/"), calls
}

func (r repository) wantFiles(want ...string) {
	r.Helper()
	var got []string
	for _, e := range check.Value(os.ReadDir(filepath.Join(r.root, "bin")))(r) {
		got = append(got, e.Name())
	}
	check.Equal(r, "files", want, got)
}

// TestParts_Stamp holds that the stamp names everything that requires a new build.
func TestParts_Stamp(t *testing.T) {
	r := newRepository(t)
	r.build("", "kwok", "kubectl")
	check.Equal(t, "stamp", "package k8s.io/kubernetes/cmd/kubectl\nversion v1.37.3\nplatform linux/arm64\nflag -ldflags="+versions[1:]+"\n",
		r.read("bin/kubectl.stamp"))
	check.Contains(t, r.read("bin/kwok.stamp"), "\nversion v0.8.0 of go.mod ")
	r.write("hack/kubernetes/1.38/go.mod", "module example.com/test\n\ntoolchain go1.27.3\n\nrequire k8s.io/kubernetes v1.38.0-beta.0\n\n"+
		"exclude (\n\tk8s.io/apiextensions-api v0.38.0-beta.0\n)\n", 0o644)
	r.write("test/cluster/parts/kwok/go.mod", "module example.com/kwok\n\nrequire sigs.k8s.io/kwok v0.8.0\n// another library\n", 0o644)
	if _, calls := r.build("", "kwok", "kubectl"); len(calls) != 1 || !strings.HasSuffix(calls[0], "/cmd/kwok") {
		t.Errorf("with another go.mod of kwok, go is called for %q", calls)
	}
}

func TestParts_UpToDate(t *testing.T) {
	r := newRepository(t)
	r.build("", "etcd")
	want := r.read("bin/etcd.stamp")
	for _, tt := range []struct {
		name string
		// binary is the mode of the program's file; 0 means that there is none.
		binary os.FileMode
		// stamp is the text beside the program; empty means that there is none.
		stamp    string
		upToDate bool
	}{
		{name: "there is no program"},
		{name: "a stamp without its program", stamp: want},
		{name: "a program without a stamp", binary: 0o755},
		{name: "a program of another version", binary: 0o755, stamp: strings.Replace(want, "v3.7.0", "v3.7.1", 1)},
		{name: "a stamp that is incomplete", binary: 0o755, stamp: want[:len(want)/2]},
		{name: "a program that cannot be executed", binary: 0o644, stamp: want},
		{name: "a program with its stamp", binary: 0o755, stamp: want, upToDate: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check.OK(t, os.RemoveAll(filepath.Join(r.root, "bin")))
			if tt.binary != 0 {
				r.write("bin/etcd", "program", tt.binary)
			}
			if tt.stamp != "" {
				r.write("bin/etcd.stamp", tt.stamp, 0o644)
			}
			_, calls := r.build("", "etcd")
			check.Equal(t, "up to date", tt.upToDate, len(calls) == 0)
			check.Equal(t, "stamp", want, r.read("bin/etcd.stamp"))
		})
	}
}

func TestParts_Flags(t *testing.T) {
	r := newRepository(t)
	for program, want := range map[string][2]string{ // CGO_ENABLED, and flags behind the program
		"etcd":                 {"0", "go.etcd.io/etcd/server/v3"},
		"prometheus":           {"0", "-tags=remove_all_sd,enable_http_sd github.com/prometheus/prometheus/cmd/prometheus"},
		"kube-scheduler":       {"0", "-ldflags=-X main.version=unknown" + versions + " ./cmd/kube-scheduler"},
		"kube-scheduler-race":  {"1", "-ldflags=-X main.version=unknown" + versions + " -race ./cmd/kube-scheduler"},
		"stock-kube-scheduler": {"0", "-ldflags=" + versions[1:] + " k8s.io/kubernetes/cmd/kube-scheduler"},
	} {
		check.OK(t, os.MkdirAll(filepath.Join(r.root, "test/cluster/parts/prometheus"), 0o755))
		r.write("test/cluster/parts/prometheus/go.mod", "module example.com/prometheus\n", 0o644)
		_, calls := r.build("1.37", program)
		check.Equal(t, program, []string{want[0] + " build -trimpath -gcflags=all=-dwarf=false -o " + filepath.Join(r.root, "bin", program) +
			" " + want[1]}, calls)
	}
	out := &bytes.Buffer{}
	if _, err := programs(t.Context(), out, r.root, "kubelet"); err == nil {
		t.Error("an unknown program is built")
	}
	check.Contains(t, out.String(), `unknown program "kubelet"`, "kube-scheduler-race")
}

func TestParts_OlderMinor(t *testing.T) {
	r := newRepository(t)
	cmd := exec.CommandContext(t.Context(), filepath.Join(r.root, "hack", "parts.sh"), "etcd")
	cmd.Env = append(os.Environ(), "KUBERNETES=1.34")
	if output, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(output), `"1.34"`) {
		t.Errorf("for a minor without a go.mod: %v, %s", err, output)
	}
	dir, calls := r.build("1.35", "kubectl", "kwok")
	check.Equal(t, "folder", "bin/1.35", dir)
	check.Contains(t, calls[0], " -modfile="+filepath.Join(r.root, "hack/kubernetes/1.35/go.mod")+" -tags=kubernetes_1_35 ",
		"gitVersion=v1.35.4", "gitMinor=35")
	check.Contains(t, r.read("bin/1.35/kubectl.stamp"), "\nversion v1.35.4\n")
	// A program that does not depend on Kubernetes is the same for all minor versions.
	check.Lacks(t, calls[1], "1.35")
	if _, calls := r.build("1.35", "kubectl", "kwok"); calls != nil {
		t.Errorf("programs that are up to date are built: %q", calls)
	}
	own, err := os.Stat(filepath.Join(r.root, "bin/1.35/kwok"))
	shared := check.Value(os.Stat(filepath.Join(r.root, "bin/kwok")))(t)
	if err != nil || !os.SameFile(own, shared) {
		t.Errorf("kwok is not linked: %v", err)
	}
}

// TestParts_Preview borrows from the default minor what cannot be built, and builds the rest by the Go that the preview needs.
func TestParts_Preview(t *testing.T) {
	r := newRepository(t)
	r.write("stubs/go", strings.Replace(r.read("stubs/go"), "$CGO_ENABLED $*", "go=$GOTOOLCHAIN $*", 1), 0o755)
	dir, calls := r.build("1.38", "kube-apiserver", "kwok", "kube-scheduler")
	check.Equal(t, "folder", "bin/1.38", dir)
	for i, want := range []string{"go= build", "go= build", "go=go1.27.3 build -modfile"} {
		check.Contains(t, calls[i], want)
	}
	check.Contains(t, calls[0], "gitVersion=v1.37.3")
	check.Contains(t, calls[2], "gitVersion=v1.38.0-beta.0", "gitMinor=38", "-tags=kubernetes_1_38")
	own := check.Value(os.Stat(filepath.Join(r.root, "bin/1.38/kube-apiserver")))(t)
	if !os.SameFile(own, check.Value(os.Stat(filepath.Join(r.root, "bin/kube-apiserver")))(t)) {
		t.Error("kube-apiserver is not that of the default minor")
	}
}

func TestPrograms_FailureRemovesOnlyTheStamp(t *testing.T) {
	r := newRepository(t)
	r.write("bin/etcd", "program", 0o755)
	r.write("bin/etcd.stamp", "of another version", 0o644)
	r.write("fails", "", 0o644)
	if _, err := programs(t.Context(), &bytes.Buffer{}, r.root, "etcd"); err == nil {
		t.Fatal("a build that fails returned no error")
	}
	r.wantFiles("etcd")
}

// TestPrograms_EndWithContext ends a build that takes its time.
func TestPrograms_EndWithContext(t *testing.T) {
	r := newRepository(t)
	r.write("stubs/go", "#!/bin/sh\nif [ \"$1\" != env ]; then sleep 600; fi\n", 0o755)
	cause := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(time.Second, func() { cancel(cause) })
	if _, err := programs(ctx, &bytes.Buffer{}, r.root, "etcd"); !errors.Is(err, cause) {
		t.Errorf("the error is %v, want %v", err, cause)
	}
	r.wantFiles()
}

// TestPrograms_LinkOnlyWhatChanged tells by the file whether a program was linked. A new file replaces the old one, which may be
// running.
func TestPrograms_LinkOnlyWhatChanged(t *testing.T) {
	r := newRepository(t)
	check.OK(t, os.Remove(filepath.Join(r.root, "stubs", "go")))
	r.write("go.mod", "module example.com/test\n\ngo 1.26\n\nrequire k8s.io/kubernetes v1.37.3\n", 0o644)
	r.write("cmd/rebalancer/main.go", "package main\n\nfunc main() {}\n", 0o644)
	build := func() os.FileInfo {
		t.Helper()
		out := &bytes.Buffer{}
		if _, err := programs(t.Context(), out, r.root, "rebalancer"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return check.Value(os.Stat(filepath.Join(r.root, "bin", "rebalancer")))(t)
	}
	first := build()
	if second := build(); !os.SameFile(first, second) {
		t.Error("a program that is up to date was linked")
	}
	// While it is open, no other file gets its inode.
	running := check.Value(os.Open(filepath.Join(r.root, "bin", "rebalancer")))(t)
	defer func() { _ = running.Close() }()
	r.write("cmd/rebalancer/main.go", "package main\n\nfunc main() { println() }\n", 0o644)
	if second := build(); os.SameFile(first, second) {
		t.Error("the file of a running program was written to, or an outdated program was not linked")
	}
	r.wantFiles("rebalancer")
}

package build

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const stopDelay = 5 * time.Second

// Builder builds parts into the bin folder of this repository.
type Builder struct {
	root string
	out  io.Writer
	// minor is the minor version of Kubernetes, such as 1.35, whose go.mod is in hack/kubernetes. It is empty for the newest, whose
	// go.mod is that of this repository.
	minor string
	// versions caches the versions that go.mod files pin, by folder and module path.
	versions map[[2]string]string
}

// New returns a Builder that reports to out, one line per program. The environment variable KUBERNETES chooses the minor version of
// Kubernetes, as it does for make; the default is the newest.
func New(ctx context.Context, out io.Writer) (*Builder, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	root, err := findRoot(ctx, executable)
	if err != nil {
		return nil, err
	}
	b := &Builder{root: root, out: out, versions: map[[2]string]string{}}
	return b, b.choose(ctx, os.Getenv("KUBERNETES"))
}

// choose sets the minor version of Kubernetes. The empty one is the newest.
func (b *Builder) choose(ctx context.Context, minor string) error {
	if minor == "" {
		return nil
	}
	newest, err := b.version(ctx, "", kubernetesModule)
	if err != nil {
		return err
	}
	if strings.HasPrefix(newest, "v"+minor+".") {
		return nil
	}
	if _, err := os.Stat(filepath.Join(b.root, minorsDir, minor, "go.mod")); err != nil {
		return fmt.Errorf("KUBERNETES is %q, but must be the minor version of go.mod (%s) or one of %s: %w", minor, newest, minorsDir,
			err)
	}
	b.minor = minor
	clear(b.versions)
	return nil
}

// Root returns the folder of this repository.
func (b *Builder) Root() string { return b.root }

// BinDir returns the folder of the programs: bin, or one below it for an older minor version of Kubernetes.
func (b *Builder) BinDir() string { return filepath.Join(b.sharedDir(), b.minor) }

// Kubernetes returns the version of Kubernetes, such as v1.36.4.
func (b *Builder) Kubernetes(ctx context.Context) (string, error) {
	return b.version(ctx, "", kubernetesModule)
}

// Newest reports whether Kubernetes is of the newest minor version that this repository is built for.
func (b *Builder) Newest() bool { return b.minor == "" }

func (b *Builder) sharedDir() string { return filepath.Join(b.root, "bin") }

// Build builds the parts that are missing or out of date. Several processes may call it at once. When ctx ends, the
// compiler ends too, and no partial file is left.
func (b *Builder) Build(ctx context.Context, parts ...Part) error {
	if err := os.MkdirAll(b.BinDir(), 0o755); err != nil {
		return fmt.Errorf("making the folder for programs: %w", err)
	}
	for _, part := range parts {
		if err := b.build(ctx, part); err != nil {
			return fmt.Errorf("building %s: %w", part.Name, err)
		}
	}
	return nil
}

func (b *Builder) build(ctx context.Context, part Part) error {
	if b.minor != "" && !part.dependsOnMinor() {
		shared := &Builder{root: b.root, out: b.out, versions: map[[2]string]string{}}
		if err := shared.Build(ctx, part); err != nil {
			return err
		}
		return link(filepath.Join(b.sharedDir(), part.Name), filepath.Join(b.BinDir(), part.Name))
	}
	var kubernetes string
	if part.dependsOnMinor() {
		var err error
		if kubernetes, err = b.version(ctx, "", kubernetesModule); err != nil {
			return err
		}
	}
	flags, err := part.flags(kubernetes, b.ownVersion(ctx))
	if err != nil {
		return err
	}
	binary := filepath.Join(b.BinDir(), part.Name)
	if part.Module == "" {
		return b.compile(ctx, part, "", flags, binary)
	}

	version, err := b.version(ctx, part.Dir, part.Module)
	if err != nil {
		return err
	}
	want, err := b.stampOf(part, version, flags)
	if err != nil {
		return err
	}
	if ok, err := upToDate(binary, want); ok || err != nil {
		return err
	}
	// If this process ends between the two writes, the old stamp must not be beside the new binary.
	if err := os.Remove(stampPath(binary)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := b.compile(ctx, part, version, flags, binary); err != nil {
		return err
	}
	return os.WriteFile(stampPath(binary), []byte(want), 0o644)
}

// stampOf returns the stamp of a part for this machine. The libraries of one that has its own go.mod may change while
// its version stays.
func (b *Builder) stampOf(part Part, version string, flags []string) (string, error) {
	if part.Dir != "" {
		requirements, err := os.ReadFile(filepath.Join(b.root, part.Dir, "go.mod"))
		if err != nil {
			return "", err
		}
		version += fmt.Sprintf(" of go.mod %x", sha256.Sum256(requirements))
	}
	return stamp(part, version, platform(), flags), nil
}

// link makes name another name of the program, so that it has all programs of a cluster beside it.
func link(program, name string) error {
	from, err := os.Stat(program)
	if err != nil {
		return err
	}
	if to, err := os.Stat(name); err == nil && os.SameFile(from, to) {
		return nil
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Link(program, name)
}

// compile runs go build, which renames its result to binary. So it never writes to a running program. It links nothing if binary is
// up to date.
func (b *Builder) compile(ctx context.Context, part Part, version string, flags []string, binary string) (err error) {
	scratch, err := os.MkdirTemp(b.BinDir(), ".build-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()

	// With the flags of the Makefile, which compiles the same packages.
	args := append([]string{"build", "-trimpath", "-gcflags=all=-dwarf=false", "-o", binary}, flags...)
	cmd := b.goCommand(ctx, part.Dir, append(args, part.Package)...)
	// go build renames files within one file system only. This function removes its temporary files, even if it is killed.
	cmd.Env = append(append(cmd.Env, part.environment()...), "GOTMPDIR="+scratch)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output

	start := time.Now()
	b.say("building %s ... ", strings.TrimSpace(part.Name+" "+version))
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			b.say("stopped\n")
			if cmd.Process != nil {
				// The interrupt may not have ended all of them within stopDelay.
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			}
			return context.Cause(ctx)
		}
		b.say("failed\n")
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(output.Bytes()))
	}
	b.say("%.0f s\n", time.Since(start).Seconds())
	return nil
}

// version returns the version of a module as pinned by the go.mod in a folder of this repository.
func (b *Builder) version(ctx context.Context, dir, module string) (string, error) {
	key := [2]string{dir, module}
	if v, ok := b.versions[key]; ok {
		return v, nil
	}
	cmd := b.goCommand(ctx, dir, "list", "-m", "-f", "{{with .Replace}}{{.Version}}{{else}}{{.Version}}{{end}}", module)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("looking up the version of %s: %w\n%s", module, err, bytes.TrimSpace(stderr.Bytes()))
	}
	v := string(bytes.TrimSpace(out))
	b.versions[key] = v
	return v, nil
}

func (b *Builder) ownVersion(ctx context.Context) string {
	cmd := exec.CommandContext(ctx, "git", "describe", "--tags", "--always", "--dirty")
	cmd.Dir = b.root
	out, err := cmd.Output()
	if err != nil {
		// Without git, or outside of a git repository, there is no version.
		return "unknown"
	}
	return string(bytes.TrimSpace(out))
}

// goCommand returns a go command that runs in a folder of this repository. When ctx ends, it and all the compilers that it
// started are interrupted.
func (b *Builder) goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	if b.minor != "" {
		// Each subcommand takes them as its first flags.
		args = append(
			[]string{args[0], "-modfile=" + filepath.Join(b.root, minorsDir, b.minor, "go.mod"), "-tags=" + minorTag(b.minor)},
			args[1:]...)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(b.root, dir)
	// A developer's go.work or target platform must not change what is built.
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOOS=", "GOARCH=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = stopDelay
	return cmd
}

// findRoot returns the folder of this repository: that of the working directory. From elsewhere, its bin folder holds this program.
func findRoot(ctx context.Context, executable string) (string, error) {
	var dirs []string
	if out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output(); err == nil {
		dirs = append(dirs, filepath.Dir(string(bytes.TrimSpace(out))))
	} else if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("the Go toolchain is needed: %w", err)
	}
	dirs = append(dirs, filepath.Dir(filepath.Dir(executable)))
	for _, dir := range dirs {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(data, []byte("module "+modulePath+"\n")) {
			return dir, nil
		}
	}
	return "", fmt.Errorf("found no go.mod of module %s in %s: run this in a clone of the repository", modulePath,
		strings.Join(dirs, " or "))
}

// say writes to out. It ignores errors: without its output the build is the same.
func (b *Builder) say(format string, args ...any) { _, _ = fmt.Fprintf(b.out, format, args...) }

func platform() string { return runtime.GOOS + "/" + runtime.GOARCH }

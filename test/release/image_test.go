package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster/build"
)

// manifest holds the fields of an image's manifest, and of an index of manifests, that the test reads.
type manifest struct {
	Manifests, Layers []descriptor
	Config            descriptor
}

type descriptor struct {
	MediaType, Digest string
	Platform          struct{ OS, Architecture string }
	Annotations       map[string]string
}

type configuration struct {
	Architecture, OS string
	Config           struct {
		User       string
		Entrypoint []string
		Labels     map[string]string
	}
}

type layout string

func (l layout) blob(d descriptor) string {
	algorithm, digest, _ := strings.Cut(d.Digest, ":")
	return filepath.Join(string(l), "blobs", algorithm, digest)
}

func decode(t *testing.T, file string, into any) {
	t.Helper()
	content := check.Value(os.ReadFile(file))(t)
	if err := json.Unmarshal(content, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// imageBuilder builds images with buildah in a storage of its own.
type imageBuilder struct {
	buildah, root, dir string
	storage            []string
}

func newImageBuilder(t *testing.T) imageBuilder {
	t.Helper()
	buildah, err := exec.LookPath("buildah")
	if err != nil {
		t.Skip("buildah is not installed, so no image is built: apt-get install buildah")
	}
	dir := t.TempDir()
	return imageBuilder{buildah: buildah, root: check.Value(filepath.Abs("../.."))(t), dir: dir, storage: []string{
		"--storage-driver=vfs", "--root=" + filepath.Join(dir, "root"), "--runroot=" + filepath.Join(dir, "run"),
	}}
}

func (b imageBuilder) run(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = b.root
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, output)
	}
}

// image runs make image with more arguments, and returns the image.
func (b imageBuilder) image(t *testing.T, flags string, args ...string) layout {
	t.Helper()
	b.run(t, "make", append([]string{
		"image", "IMAGE=plimsoll:test", "VERSION=v1.2.3", "BASE=scratch",
		"BUILDER=" + strings.Join(append([]string{b.buildah}, b.storage...), " "), "BUILD_FLAGS=--isolation=chroot --pull-never " + flags,
	}, args...)...)
	target := filepath.Join(b.dir, "image")
	b.run(t, b.buildah, append(b.storage, "push", "plimsoll:test", "oci:"+target)...)
	return layout(target)
}

func (l layout) open(t *testing.T) (m manifest, c configuration) {
	t.Helper()
	var index manifest
	decode(t, filepath.Join(string(l), "index.json"), &index)
	check.Require(t, "the index names images", 1, len(index.Manifests))
	decode(t, l.blob(index.Manifests[0]), &m)
	decode(t, l.blob(m.Config), &c)
	return m, c
}

// unpack writes the files of all layers to a folder.
func (l layout) unpack(t *testing.T, m manifest) string {
	t.Helper()
	root := t.TempDir()
	for _, layer := range m.Layers {
		if err := unpackLayer(l.blob(layer), root); err != nil {
			t.Fatalf("layer %s: %v", layer.Digest, err)
		}
	}
	return root
}

func unpackLayer(file, root string) (err error) {
	packed, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, packed.Close()) }()
	plain, err := gzip.NewReader(packed)
	if err != nil {
		return err
	}
	return unpack(plain, root)
}

// unpack writes the files and folders of an archive. An image on scratch has nothing else.
func unpack(archive io.Reader, root string) (err error) {
	layer := tar.NewReader(archive)
	for {
		header, err := layer.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !filepath.IsLocal(header.Name) {
			return fmt.Errorf("%s is outside of the image", header.Name)
		}
		if header.Uid != 0 || header.Gid != 0 {
			return fmt.Errorf("%s belongs to %d:%d, not to root", header.Name, header.Uid, header.Gid)
		}
		path, mode := filepath.Join(root, header.Name), header.FileInfo().Mode()
		switch header.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(path, mode.Perm())
		case tar.TypeReg:
			err = writeFile(path, mode, layer)
		default:
			err = fmt.Errorf("%s is of type %q", header.Name, header.Typeflag)
		}
		if err != nil {
			return err
		}
	}
}

func writeFile(path string, mode fs.FileMode, content io.Reader) (err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode.Perm())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := io.Copy(file, content); err != nil {
		return err
	}
	return file.Chmod(mode) // the umask limits the mode of OpenFile
}

func TestImage(t *testing.T) {
	b := newImageBuilder(t)
	check.Value(build.Programs(t.Context(), os.Stderr, "kube-scheduler", "load-watcher", "kubectl-plimsoll"))(t)
	image := b.image(t, "", "BINARIES=prebuilt")
	m, c := image.open(t)
	checkImage(t, c, image.unpack(t, m))
}

// The compiler's image holds links alone: Go, make and all compiled packages are those of this machine. Therefore the test needs no
// network and compiles little.
func TestImage_FromSource(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount folders into a build")
	}
	b := newImageBuilder(t)
	goEnv := func(name string) string {
		return strings.TrimSpace(string(check.Value(exec.CommandContext(t.Context(), "go", "env", name).Output())(t)))
	}
	context := filepath.Join(b.dir, "compiler")
	check.OK(t, os.MkdirAll(filepath.Join(context, "tmp"), 0o755))
	mounts := []string{"/usr:/usr:ro", "/etc/alternatives:/etc/alternatives:ro"}
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		target, err := os.Readlink("/" + name)
		switch {
		case err == nil:
			check.OK(t, os.Symlink(target, filepath.Join(context, name)))
		case !errors.Is(err, fs.ErrNotExist):
			mounts = append(mounts, fmt.Sprintf("/%s:/%s:ro", name, name))
		}
	}
	for _, folder := range []string{"/etc/ssl", goEnv("GOROOT"), goEnv("GOMODCACHE"), goEnv("GOCACHE")} {
		mounts = append(mounts, folder+":"+folder)
	}
	check.OK(t, os.WriteFile(filepath.Join(context, "Dockerfile"), []byte(fmt.Sprintf(
		"FROM scratch\nCOPY . /\nENV PATH=%s/bin:/usr/bin:/bin GOMODCACHE=%s GOCACHE=%s GOTOOLCHAIN=local\n",
		goEnv("GOROOT"), goEnv("GOMODCACHE"), goEnv("GOCACHE"))), 0o600))
	b.run(t, b.buildah, append(b.storage, "build", "--tag", "compiler:test", context)...)
	flags := "--build-arg=PGO=0 --volume=" + strings.Join(mounts, " --volume=")
	m, c := b.image(t, flags, "GO_IMAGE=localhost/compiler:test").open(t)
	root := layout(filepath.Join(b.dir, "image")).unpack(t, m)
	checkImage(t, c, root, "etc/ssl/certs/ca-certificates.crt")
}

// The image compiles what the Dockerfile copies, and the Dockerfile can copy what .dockerignore lets through.
func TestImage_CopiesWhatIsCompiled(t *testing.T) {
	copies, ignored := string(check.Value(os.ReadFile("../../Dockerfile"))(t)), string(check.Value(os.ReadFile("../../.dockerignore"))(t))
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{if .Main}}{{$.Dir}}{{end}}{{end}}", "./cmd/...")
	cmd.Dir = "../.."
	root, needed := check.Value(filepath.Abs("../.."))(t), map[string]bool{}
	for _, dir := range strings.Fields(string(check.Value(cmd.Output())(t))) {
		folder, _, _ := strings.Cut(check.Value(filepath.Rel(root, dir))(t), string(filepath.Separator))
		needed[folder] = true
	}
	if len(needed) == 0 {
		t.Fatal("go list names no folder of this module")
	}
	for folder := range needed {
		if line := fmt.Sprintf("\nCOPY %s/ %[1]s/\n", folder); !strings.Contains(copies, line) {
			t.Errorf("the Dockerfile lacks %q: the programs import packages of %s", strings.TrimSpace(line), folder)
		}
		if line := fmt.Sprintf("\n!%s/**\n", folder); !strings.Contains(ignored, line) {
			t.Errorf(".dockerignore lacks %q: the programs import packages of %s", strings.TrimSpace(line), folder)
		}
	}
}

// checkImage checks an image of version v1.2.3, whose layers are unpacked in root. Its files are the programs, the
// license and more.
func checkImage(t *testing.T, c configuration, root string, more ...string) {
	t.Helper()
	t.Run("has platform, user, entrypoint and labels", func(t *testing.T) {
		check.Equal(t, "platform", [2]string{"linux", runtime.GOARCH}, [2]string{c.OS, c.Architecture})
		check.Equal(t, "the user: runAsNonRoot takes a numeric user", "65532:65532", c.Config.User)
		check.Equal(t, "entrypoint", []string{"/bin/kube-scheduler"}, c.Config.Entrypoint)
		const prefix, repository = "org.opencontainers.image.", "https://github.com/plimsoll-scheduler/plimsoll"
		for label, want := range map[string]string{
			"title": "Plimsoll", "description": "A kube-scheduler that places pods by the load nodes really carry",
			"version": "v1.2.3", "source": repository, "url": repository, "licenses": "Apache-2.0",
		} {
			check.Equal(t, "label "+label, want, c.Config.Labels[prefix+label])
		}
		if c.Config.Labels[prefix+"revision"] == "" {
			t.Error("label revision is empty")
		}
	})

	t.Run("holds only what it must, writable by root alone", func(t *testing.T) {
		var files []string
		err := fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
			if err != nil || path == "." {
				return err
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			// On OpenShift every user is in root's group.
			if info.Mode()&0o022 != 0 || info.Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0 {
				t.Errorf("%s has mode %s", path, info.Mode())
			}
			if !entry.IsDir() {
				files = append(files, path)
			}
			return nil
		})
		check.OK(t, err)
		want := append([]string{"bin/kube-scheduler", "bin/kubectl-plimsoll", "bin/load-watcher", "bin/rebalancer", "licenses/LICENSE"}, more...)
		slices.Sort(want)
		check.Equal(t, "files", want, files)
	})

	for _, program := range []string{"kube-scheduler", "load-watcher", "rebalancer", "kubectl-plimsoll"} {
		t.Run(program+" is static", func(t *testing.T) {
			file := check.Value(elf.Open(filepath.Join(root, "bin", program)))(t)
			defer func() { _ = file.Close() }()
			if slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC }) {
				t.Errorf("%s is linked dynamically", program)
			}
		})
		t.Run(program+" runs as any user", func(t *testing.T) {
			if os.Geteuid() != 0 {
				t.Skip("only root can become another user")
			}
			cmd := exec.CommandContext(t.Context(), "/bin/"+program, "--version")
			cmd.Env = []string{} // no HOME either
			cmd.Dir = "/"
			cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 1000650000, Gid: 0}}
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v: %s", err, &stderr)
			}
			if !strings.HasPrefix(stdout.String(), "Plimsoll ") || stderr.Len() > 0 {
				t.Errorf("stdout is %q and stderr %q", &stdout, &stderr)
			}
		})
	}
}

func TestImage_PinnedNeedsDigests(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0", 64)
	for _, tc := range []struct {
		name string
		args []string
		// want is what the error names; empty if the image is built.
		want string
	}{
		{"without PINNED tags will do", nil, ""},
		{"no base is given", []string{"PINNED=1"}, "BASE"},
		{"the base has a tag", []string{"PINNED=1", "BASE=base:1", "GO_IMAGE=golang" + digest}, "BASE"},
		{"the compiler's image has a tag", []string{"PINNED=1", "BASE=base:1" + digest, "GO_IMAGE=golang:1.26"}, "GO_IMAGE"},
		{"both have digests", []string{"PINNED=1", "BASE=base:1" + digest, "GO_IMAGE=golang" + digest}, ""},
		{"nothing is compiled, on no base", []string{"PINNED=1", "BASE=scratch", "BINARIES=prebuilt", "PLATFORM=linux/none"}, "BINARIES=prebuilt needs"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			// The builder is a program that does nothing.
			cmd := exec.CommandContext(t.Context(), "make", append([]string{"image", "VERSION=v1.2.3", "BUILDER=true"}, tc.args...)...)
			cmd.Dir = filepath.Join("..", "..")
			output, err := cmd.CombinedOutput()
			if (err == nil) != (tc.want == "") || !strings.Contains(string(output), tc.want) {
				t.Errorf("error %v, want one that names %q:\n%s", err, tc.want, output)
			}
		})
	}
}

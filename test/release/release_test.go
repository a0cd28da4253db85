package release

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/test/cluster/build"
)

const (
	imageName = "ghcr.io/plimsoll-scheduler/plimsoll"
	changelog = `# Changelog

## [Unreleased]

- Next.

## [1.2.3] - 2026-02-03

### Added

- This.

## [1.2.2] - 2026-01-02

- Past.
`
)

// run returns the standard output of a program.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), name, args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("%s %q: %v\n%s", name, args, err, exit.Stderr)
		}
		t.Fatalf("%s %q: %v", name, args, err)
	}
	return string(output)
}

func sha256Of(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// filesOf returns the paths of all files below a folder, sorted.
func filesOf(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// clone copies this working tree, with changes that are not committed, to a repository with one commit, the changelog above and its
// version of the chart.
func clone(t *testing.T, root string) string {
	t.Helper()
	repo := t.TempDir()
	for _, name := range strings.FieldsFunc(run(t, "git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"), func(r rune) bool { return r == 0 }) {
		content, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(repo, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(target, content, info.Mode()); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(repo, "CHANGELOG.md"), []byte(changelog), 0o644); err != nil {
		t.Fatal(err)
	}
	chart := filepath.Join(repo, "manifests", "chart", "Chart.yaml")
	text, err := os.ReadFile(chart)
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`(?m)^(version: |appVersion: v).*$`).ReplaceAll(text, []byte("${1}1.2.3"))
	if err := os.WriteFile(chart, text, 0o644); err != nil {
		t.Fatal(err)
	}
	// Helm takes minutes to build.
	if err := os.Mkdir(filepath.Join(repo, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"helm", "helm.stamp"} {
		if err := os.Symlink(filepath.Join(root, "bin", name), filepath.Join(repo, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GIT_AUTHOR_DATE", "2026-02-03T04:05:06Z")
	t.Setenv("GIT_COMMITTER_DATE", "2026-02-03T04:05:06Z")
	run(t, "git", "-C", repo, "init", "--quiet")
	run(t, "git", "-C", repo, "add", "--all")
	run(
		t,
		"git",
		"-C",
		repo,
		"-c",
		"user.name=test",
		"-c",
		"user.email=test@example.com",
		"-c",
		"commit.gpgsign=false",
		"commit",
		"--quiet",
		"--message=test",
	)
	return repo
}

// bom holds the fields of a CycloneDX document that the test reads.
type bom struct {
	BOMFormat string
	Metadata  struct{ Component component }
	// Components are everything that Metadata.Component consists of.
	Components []component
}

type component struct {
	Type, Name, Version, PURL string
	Hashes                    []struct{ Alg, Content string }
}

// version returns the version of a component, or nothing.
func (b bom) version(name string) string {
	for _, c := range b.Components {
		if c.Name == name {
			return c.Version
		}
	}
	return ""
}

func TestRelease(t *testing.T) {
	builder, err := build.New(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	if err := builder.Build(t.Context(), build.Helm()); err != nil {
		t.Fatal(err)
	}
	kubernetes, err := builder.Kubernetes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	minor := strings.TrimPrefix(kubernetes[:strings.LastIndex(kubernetes, ".")], "v")
	repo := clone(t, builder.Root())
	release := func(version, dist string) error {
		dist, err := filepath.Rel(repo, dist)
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(
			t.Context(),
			"make",
			"release",
			"VERSION="+version,
			"DIST="+dist,
			"KUBERNETES_MINORS="+minor,
			"PLATFORMS=linux/"+runtime.GOARCH,
		)
		cmd.Dir = repo
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, output)
		}
		return nil
	}

	for _, tc := range []struct{ name, version, want string }{
		{"a version without v", "1.2.3", "VERSION=v1.2.3"},
		{"a version without a patch", "v1.2", "VERSION=v1.2.3"},
		{"a version with build metadata, which no tag of an image can have", "v1.2.3+x", "VERSION=v1.2.3"},
		{"a commit for a version", "v1.2.3-4-gabcdef-dirty+x", "VERSION=v1.2.3"},
		{"a version that the chart does not have", "v1.2.2", `must have "version: 1.2.2", but has "version: 1.2.3"`},
		{"a version that the changelog has no date of", "vUnreleased", "VERSION=v1.2.3"},
	} {
		t.Run("refuses "+tc.name, func(t *testing.T) {
			if err := release(tc.version, t.TempDir()); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("want an error that says %q, got: %v", tc.want, err)
			}
		})
	}
	t.Run("refuses a working tree with changes", func(t *testing.T) {
		file := filepath.Join(repo, "cmd", "new.go")
		if err := os.WriteFile(file, []byte("package cmd\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.Remove(file) }()
		if err := release("v1.2.3", t.TempDir()); err == nil || !strings.Contains(err.Error(), "commit or remove them\n?? cmd/new.go") {
			t.Errorf("want an error that names the file, got: %v", err)
		}
	})
	t.Run("leaves a folder with other files alone", func(t *testing.T) {
		dist := t.TempDir()
		file := filepath.Join(dist, "mine")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := release("v1.2.3", dist); err == nil || !strings.Contains(err.Error(), "not of a release") {
			t.Errorf("want an error that says so, got: %v", err)
		}
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	})

	dist := filepath.Join(t.TempDir(), "dist")
	if err := release("v1.2.3", dist); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(dist, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	unpacked := func(name string) string {
		dir := t.TempDir()
		if err := unpackLayer(filepath.Join(dist, name), dir); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return dir
	}
	suffix, imageFile := "_k8s"+minor+"_linux_"+runtime.GOARCH, "plimsoll-1.2.3-k8s"+minor
	servers := unpacked("plimsoll_v1.2.3" + suffix + ".tar.gz")
	images := strings.Split(read("images.txt"), "\n")
	if len(images) != 3 || images[2] != "" {
		t.Fatalf("images.txt is %q, want a line of the image and one of the chart", images)
	}
	digest, _, _ := strings.Cut(images[0], " ")
	chartDigest, _, _ := strings.Cut(images[1], " ")
	byDigest := imageName + "@sha256:" + digest

	t.Run("checksums are of all files and no other", func(t *testing.T) {
		var want strings.Builder
		for _, name := range filesOf(t, dist) {
			if name != "checksums.txt" {
				fmt.Fprintf(&want, "%s  %s\n", sha256Of(t, filepath.Join(dist, name)), name)
			}
		}
		if diff := cmp.Diff(want.String(), read("checksums.txt")); diff != "" {
			t.Errorf("checksums.txt (-want +got):\n%s", diff)
		}
	})
	t.Run("holds what it must", func(t *testing.T) {
		want := []string{
			"checksums.txt",
			"images.txt",
			"krew.yaml",
			"release-notes.md",
			"plimsoll-1.2.3.tgz",
			"manifests_v1.2.3_k8s" + minor + ".tar.gz",
			"second-scheduler-k8s" + minor + ".yaml",
			imageFile + ".tar",
			imageFile + ".cdx.json",
			"plimsoll_v1.2.3" + suffix + ".tar.gz",
			"kube-scheduler_v1.2.3" + suffix + ".cdx.json",
			"load-watcher_v1.2.3" + suffix + ".cdx.json",
			"kubectl-plimsoll_v1.2.3_linux_" + runtime.GOARCH + ".tar.gz",
			"kubectl-plimsoll_v1.2.3_linux_" + runtime.GOARCH + ".cdx.json",
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, filesOf(t, dist)); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
	})
	t.Run("notes are the section of the changelog, and name the image and the chart", func(t *testing.T) {
		want := "### Added\n\n- This.\n\n### Images and chart\n\n- `" + imageName + ":1.2.3-k8s" + minor + "@sha256:" + digest + "`\n" +
			"- `ghcr.io/plimsoll-scheduler/charts/plimsoll:1.2.3@sha256:" + chartDigest + "`\n"
		if diff := cmp.Diff(want, read("release-notes.md")); diff != "" {
			t.Errorf("release-notes.md (-want +got):\n%s", diff)
		}
	})
	t.Run("programs say their version", func(t *testing.T) {
		if diff := cmp.Diff(
			[]string{"LICENSE", "THIRD_PARTY_LICENSES", "kube-scheduler", "load-watcher"},
			filesOf(t, servers),
		); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
		if got, want := run(
			t,
			filepath.Join(servers, "kube-scheduler"),
			"--version",
		), "Plimsoll v1.2.3\nKubernetes "+kubernetes+"\n"; got != want {
			t.Errorf("kube-scheduler --version prints %q, want %q", got, want)
		}
		if got := run(t, filepath.Join(servers, "load-watcher"), "--version"); got != "Plimsoll v1.2.3\n" {
			t.Errorf("load-watcher --version prints %q", got)
		}
	})
	t.Run("archives have the licenses of what programs consist of", func(t *testing.T) {
		text, err := os.ReadFile(filepath.Join(servers, "THIRD_PARTY_LICENSES"))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []string{"k8s.io/kubernetes " + kubernetes + ": LICENSE", "github.com/spf13/pflag v", "k8s.io/apimachinery v", "Copyright (c) 2012 Alex Ogier"} {
			if !strings.Contains(string(text), "\n"+m) {
				t.Errorf("THIRD_PARTY_LICENSES lacks %q", m)
			}
		}
	})
	t.Run("krew", func(t *testing.T) { checkKrew(t, dist, kubernetes) })
	t.Run("the chart has the version", func(t *testing.T) {
		text, err := os.ReadFile(filepath.Join(unpacked("plimsoll-1.2.3.tgz"), "plimsoll", "Chart.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var chart struct{ Version, AppVersion string }
		if err := yaml.Unmarshal(text, &chart); err != nil {
			t.Fatal(err)
		}
		if chart.Version != "1.2.3" || chart.AppVersion != "v1.2.3" {
			t.Errorf("the chart is %+v", chart)
		}
	})
	t.Run("manifests name the image by digest", func(t *testing.T) {
		top := "manifests_v1.2.3_k8s" + minor
		dir := filepath.Join(unpacked(top+".tar.gz"), top)
		files := []string{
			"README.md",
			"default-scheduler/README.md",
			"default-scheduler/config.yaml",
			"default-scheduler/patches/kube-scheduler+strategic.yaml",
			"default-scheduler/rbac.yaml",
			"default-scheduler/values.yaml",
			"kustomization.yaml",
			"openshift/README.md",
			"openshift/configmap.yaml",
			"openshift/images.yaml",
			"openshift/kustomization.yaml",
			"openshift/rbac.yaml",
			"openshift/secondaryscheduler.yaml",
			"openshift/values.yaml",
			"second-scheduler.yaml",
			"stopgap/stopgap.yaml",
			"stopgap/values.yaml",
		}
		if diff := cmp.Diff(files, filesOf(t, dir)); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
		named := map[string]int{}
		for _, file := range filesOf(t, dir) {
			content, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(file, ".yaml") && strings.Contains(string(content), imageName+":") {
				t.Errorf("%s names the image by a tag", file)
			}
			if n := strings.Count(string(content), byDigest+"\n"); n > 0 {
				named[file] = n
			}
		}
		want := map[string]int{
			"second-scheduler.yaml":                                   1,
			"openshift/secondaryscheduler.yaml":                       1,
			"default-scheduler/patches/kube-scheduler+strategic.yaml": 1,
		}
		if diff := cmp.Diff(want, named); diff != "" {
			t.Errorf("files that name %s (-want +got):\n%s", byDigest, diff)
		}
		if content, err := os.ReadFile(
			filepath.Join(dir, "second-scheduler.yaml"),
		); err != nil ||
			string(content) != read("second-scheduler-k8s"+minor+".yaml") {
			t.Errorf("second-scheduler-k8s%s.yaml is another file than in the archive: %v", minor, err)
		}
		stopgap, err := os.ReadFile(filepath.Join(dir, "stopgap", "stopgap.yaml"))
		if err != nil || !strings.Contains(string(stopgap), "registry.k8s.io/kube-scheduler:"+kubernetes+"\n") {
			t.Errorf("the stopgap is not the stock scheduler %s: %v", kubernetes, err)
		}
	})

	t.Run("image", func(t *testing.T) {
		dir := t.TempDir()
		archive, err := os.Open(filepath.Join(dist, imageFile+".tar"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = archive.Close() }()
		if err := unpack(archive, dir); err != nil {
			t.Fatal(err)
		}
		for _, blob := range filesOf(t, filepath.Join(dir, "blobs", "sha256")) {
			if sum := sha256Of(t, filepath.Join(dir, "blobs", "sha256", blob)); sum != blob {
				t.Errorf("blob %s has the digest %s", blob, sum)
			}
		}
		var top, index, m manifest
		var c configuration
		decode(t, filepath.Join(dir, "index.json"), &top)
		if len(top.Manifests) != 1 || top.Manifests[0].Digest != "sha256:"+digest ||
			top.Manifests[0].MediaType != "application/vnd.oci.image.index.v1+json" {
			t.Fatalf("the layout holds %+v, want the index %s", top, digest)
		}
		if got := top.Manifests[0].Annotations["org.opencontainers.image.ref.name"]; got != "1.2.3-k8s"+minor {
			t.Errorf("the tag is %q", got)
		}
		want := digest + "  " + imageName + ":1.2.3-k8s" + minor + "\n" + chartDigest + "  ghcr.io/plimsoll-scheduler/charts/plimsoll:1.2.3\n"
		if got := read("images.txt"); got != want || len(chartDigest) != 64 {
			t.Errorf("images.txt is %q, want %q", got, want)
		}
		decode(t, layout(dir).blob(top.Manifests[0]), &index)
		if len(index.Manifests) != 1 || index.Manifests[0].Platform.OS != "linux" ||
			index.Manifests[0].Platform.Architecture != runtime.GOARCH {
			t.Fatalf("the index is %+v", index)
		}
		decode(t, layout(dir).blob(index.Manifests[0]), &m)
		decode(t, layout(dir).blob(m.Config), &c)
		root := layout(dir).unpack(t, m)
		const certificates = "etc/ssl/certs/ca-certificates.crt"
		checkImage(t, c, root, certificates, "licenses/THIRD_PARTY_LICENSES")
		if got, want := c.Config.Labels["org.opencontainers.image.revision"], strings.TrimSpace(
			run(t, "git", "-C", repo, "rev-parse", "HEAD"),
		); got != want {
			t.Errorf("label revision is %s, want %s", got, want)
		}
		for _, name := range []string{"kube-scheduler", "load-watcher"} {
			if sha256Of(t, filepath.Join(root, "bin", name)) != sha256Of(t, filepath.Join(servers, name)) {
				t.Errorf("%s is not that of the archive", name)
			}
		}
		text, err := os.ReadFile(filepath.Join(root, certificates))
		if err != nil {
			t.Fatal(err)
		}
		count := 0
		for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
			if c, err := x509.ParseCertificate(block.Bytes); err != nil || !c.IsCA {
				t.Errorf("certificate %d is of no authority: %v", count, err)
			}
			count++
		}
		if count < 50 {
			t.Errorf("the image has %d authorities", count)
		}
	})

	t.Run("SBOM of", func(t *testing.T) {
		for name, program := range map[string]string{
			"kube-scheduler_v1.2.3" + suffix:                  "kube-scheduler",
			"load-watcher_v1.2.3" + suffix:                    "load-watcher",
			"kubectl-plimsoll_v1.2.3_linux_" + runtime.GOARCH: "kubectl-plimsoll",
			imageFile: "",
		} {
			t.Run(name, func(t *testing.T) {
				var b bom
				decode(t, filepath.Join(dist, name+".cdx.json"), &b)
				subject := b.Metadata.Component
				if b.BOMFormat != "CycloneDX" {
					t.Errorf("the format is %q", b.BOMFormat)
				}
				if got, want := b.version("stdlib"), strings.TrimPrefix(runtime.Version(), "go"); got != want {
					t.Errorf("the standard library is that of Go %s, want %s", got, want)
				}
				if program != "load-watcher" {
					if got := b.version("k8s.io/kubernetes"); got != kubernetes {
						t.Errorf("k8s.io/kubernetes is %q, want %q", got, kubernetes)
					}
					if got, want := b.version("k8s.io/kube-scheduler"), strings.Replace(kubernetes, "v1.", "v0.", 1); got != want {
						t.Errorf("k8s.io/kube-scheduler is %q, want %q, which replaces what is required", got, want)
					}
				}
				if program == "" {
					if subject.Type != "container" || subject.Name != imageName || !strings.Contains(subject.PURL, "@sha256:"+digest) {
						t.Errorf("it is of %+v", subject)
					}
					for _, program := range []string{"kube-scheduler", "load-watcher", "kubectl-plimsoll"} {
						if b.version(program) != "v1.2.3" {
							t.Errorf("%s is %q", program, b.version(program))
						}
					}
					return
				}
				if subject.Name != program || subject.Version != "v1.2.3" || len(subject.Hashes) != 1 {
					t.Fatalf("it is of %+v", subject)
				}
				if file := filepath.Join(servers, program); program != "kubectl-plimsoll" && subject.Hashes[0].Content != sha256Of(t, file) {
					t.Errorf("it is of a %s with the checksum %s", program, subject.Hashes[0].Content)
				}
			})
		}
	})

	t.Run("the same commit makes the same release", func(t *testing.T) {
		first := read("checksums.txt")
		if err := release("v1.2.3", dist); err != nil { // it replaces the first one
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, read("checksums.txt")); diff != "" {
			t.Errorf("checksums.txt (-first +second):\n%s", diff)
		}
	})
}

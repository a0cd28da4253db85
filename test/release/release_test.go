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

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster/build"
)

const (
	imageName = "ghcr.io/plimsoll-scheduler/plimsoll"
	changelog = "# Changelog\n\n## [1.2.3] - 2026-02-03\n\n- This.\n"
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
	content := check.Value(os.ReadFile(file))(t)
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// filesOf returns the paths of all files below a folder, sorted.
func filesOf(t *testing.T, dir string) (files []string) {
	t.Helper()
	check.OK(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, path)
		}
		return err
	}))
	return files
}

// clone copies this working tree, uncommitted changes included, to a repository with one commit. It has the changelog above and its
// version of the chart.
func clone(t *testing.T, root string) string {
	t.Helper()
	repo := t.TempDir()
	for _, name := range strings.FieldsFunc(run(t, "git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"), func(r rune) bool { return r == 0 }) {
		content, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		check.OK(t, err)
		info := check.Value(os.Stat(filepath.Join(root, name)))(t)
		target := filepath.Join(repo, name)
		check.OK(t, os.MkdirAll(filepath.Dir(target), 0o755))
		check.OK(t, os.WriteFile(target, content, info.Mode()))
	}
	check.OK(t, os.WriteFile(filepath.Join(repo, "CHANGELOG.md"), []byte(changelog), 0o644))
	chart := filepath.Join(repo, "manifests", "chart", "Chart.yaml")
	text := check.Value(os.ReadFile(chart))(t)
	text = regexp.MustCompile(`(?m)^(version: |appVersion: v).*$`).ReplaceAll(text, []byte("${1}1.2.3"))
	check.OK(t, os.WriteFile(chart, text, 0o644))
	// Helm takes minutes to build.
	check.OK(t, os.Mkdir(filepath.Join(repo, "bin"), 0o755))
	for _, name := range []string{"helm", "helm.stamp"} {
		check.OK(t, os.Symlink(filepath.Join(root, "bin", name), filepath.Join(repo, "bin", name)))
	}
	t.Setenv("GIT_AUTHOR_DATE", "2026-02-03T04:05:06Z")
	t.Setenv("GIT_COMMITTER_DATE", "2026-02-03T04:05:06Z")
	run(t, "git", "-C", repo, "init", "--quiet")
	run(t, "git", "-C", repo, "add", "--all")
	run(t, "git", "-C", repo, "-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false", "commit",
		"--quiet", "--message=test")
	return repo
}

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

func (b bom) version(name string) string {
	for _, c := range b.Components {
		if c.Name == name {
			return c.Version
		}
	}
	return ""
}

// TestRelease makes a release of one platform from real programs. hack/release tests the rest with stubs.
func TestRelease(t *testing.T) {
	binDir := check.Value(build.Programs(t.Context(), os.Stderr, "helm"))(t)
	listed := check.Value(exec.CommandContext(t.Context(), "go", "list", "-m", "-f={{.Version}}", "k8s.io/kubernetes").Output())(t)
	kubernetes := strings.TrimSpace(string(listed))
	minor := strings.TrimPrefix(kubernetes[:strings.LastIndex(kubernetes, ".")], "v")
	repo := clone(t, filepath.Dir(binDir))
	dist := filepath.Join(t.TempDir(), "dist")
	// Without the profile, what other tests compiled serves here too.
	cmd := exec.CommandContext(t.Context(), "make", "release", "VERSION=v1.2.3", "DIST="+dist, "KUBERNETES_MINORS="+minor,
		"PLATFORMS=linux/"+runtime.GOARCH, "PGO=0")
	cmd.Dir = repo
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	read := func(name string) string {
		return string(check.Value(os.ReadFile(filepath.Join(dist, name)))(t))
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
		check.Equal(t, "checksums.txt", want.String(), read("checksums.txt"))
	})
	t.Run("holds what it must", func(t *testing.T) {
		want := []string{
			"checksums.txt", "images.txt", "krew.yaml", "release-notes.md", "plimsoll-1.2.3.tgz", "manifests_v1.2.3_k8s" + minor + ".tar.gz",
			"second-scheduler-k8s" + minor + ".yaml", imageFile + ".tar", imageFile + ".cdx.json", "plimsoll_v1.2.3" + suffix + ".tar.gz",
			"kube-scheduler_v1.2.3" + suffix + ".cdx.json", "load-watcher_v1.2.3" + suffix + ".cdx.json",
			"rebalancer_v1.2.3" + suffix + ".cdx.json",
			"kubectl-plimsoll_v1.2.3_linux_" + runtime.GOARCH + ".tar.gz", "kubectl-plimsoll_v1.2.3_linux_" + runtime.GOARCH + ".cdx.json",
		}
		slices.Sort(want)
		check.Equal(t, "files", want, filesOf(t, dist))
	})
	t.Run("programs say their version", func(t *testing.T) {
		check.Equal(t, "files", []string{"LICENSE", "THIRD_PARTY_LICENSES", "kube-scheduler", "load-watcher", "rebalancer"}, filesOf(t, servers))
		check.Equal(t, "version", "Plimsoll v1.2.3\nKubernetes "+kubernetes+"\n",
			run(t, filepath.Join(servers, "kube-scheduler"), "--version"))
		check.Equal(t, "version", "Plimsoll v1.2.3\n", run(t, filepath.Join(servers, "load-watcher"), "--version"))
	})
	t.Run("load-watcher is small: it links no scheduler", func(t *testing.T) {
		if info := check.Value(os.Stat(filepath.Join(servers, "load-watcher")))(t); info.Size() > 45e6 {
			t.Errorf("it has %d bytes, want at most 45 MB", info.Size())
		}
	})
	t.Run("archives have the licenses of what programs consist of", func(t *testing.T) {
		text := check.Value(os.ReadFile(filepath.Join(servers, "THIRD_PARTY_LICENSES")))(t)
		for _, m := range []string{"k8s.io/kubernetes " + kubernetes + ": LICENSE", "github.com/spf13/pflag v", "k8s.io/apimachinery v", "Copyright (c) 2012 Alex Ogier"} {
			check.Contains(t, string(text), "\n"+m)
		}
	})
	t.Run("krew", func(t *testing.T) { checkKrew(t, dist, kubernetes) })
	t.Run("manifests name the image by digest", func(t *testing.T) {
		top := "manifests_v1.2.3_k8s" + minor
		dir := filepath.Join(unpacked(top+".tar.gz"), top)
		files := []string{
			"README.md", "default-scheduler/README.md", "default-scheduler/config.yaml",
			"default-scheduler/patches/kube-scheduler+strategic.yaml", "default-scheduler/rbac.yaml", "default-scheduler/values.yaml",
			"kustomization.yaml", "openshift/README.md", "openshift/configmap.yaml", "openshift/images.yaml", "openshift/kustomization.yaml",
			"openshift/rbac.yaml", "openshift/secondaryscheduler.yaml", "openshift/values.yaml", "second-scheduler.yaml",
			"stopgap/stopgap.yaml", "stopgap/values.yaml",
		}
		check.Equal(t, "files", files, filesOf(t, dir))
		named := map[string]int{}
		for _, file := range filesOf(t, dir) {
			content := check.Value(os.ReadFile(filepath.Join(dir, file)))(t)
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
		check.Equal(t, "files that name "+byDigest, want, named)
		if content, err := os.ReadFile(filepath.Join(dir, "second-scheduler.yaml")); err != nil ||
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
		archive := check.Value(os.Open(filepath.Join(dist, imageFile+".tar")))(t)
		defer func() { _ = archive.Close() }()
		check.OK(t, unpack(archive, dir))
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
		check.Equal(t, "the tag", "1.2.3-k8s"+minor, top.Manifests[0].Annotations["org.opencontainers.image.ref.name"])
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
		check.Equal(t, "label revision", strings.TrimSpace(run(t, "git", "-C", repo, "rev-parse", "HEAD")),
			c.Config.Labels["org.opencontainers.image.revision"])
		for _, name := range []string{"kube-scheduler", "load-watcher", "rebalancer"} {
			if sha256Of(t, filepath.Join(root, "bin", name)) != sha256Of(t, filepath.Join(servers, name)) {
				t.Errorf("%s is not that of the archive", name)
			}
		}
		text := check.Value(os.ReadFile(filepath.Join(root, certificates)))(t)
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
			"rebalancer_v1.2.3" + suffix:                      "rebalancer",
			"kubectl-plimsoll_v1.2.3_linux_" + runtime.GOARCH: "kubectl-plimsoll",
			imageFile: "",
		} {
			t.Run(name, func(t *testing.T) {
				var b bom
				decode(t, filepath.Join(dist, name+".cdx.json"), &b)
				subject := b.Metadata.Component
				check.Equal(t, "the format", "CycloneDX", b.BOMFormat)
				check.Equal(t, "the version of Go", strings.TrimPrefix(runtime.Version(), "go"), b.version("stdlib"))
				if program != "load-watcher" {
					check.Equal(t, "k8s.io/kubernetes", kubernetes, b.version("k8s.io/kubernetes"))
					check.Equal(t, "k8s.io/kube-scheduler, which replaces what is required", strings.Replace(kubernetes, "v1.", "v0.", 1),
						b.version("k8s.io/kube-scheduler"))
				}
				if program == "" {
					if subject.Type != "container" || subject.Name != imageName || !strings.Contains(subject.PURL, "@sha256:"+digest) {
						t.Errorf("it is of %+v", subject)
					}
					for _, program := range []string{"kube-scheduler", "load-watcher", "rebalancer", "kubectl-plimsoll"} {
						check.Equal(t, program+": version", "v1.2.3", b.version(program))
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
}

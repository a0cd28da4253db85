package main

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"log"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"golang.org/x/crypto/x509roots/fallback/bundle"
	"golang.org/x/mod/module"
)

func mustOutput(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	return value(output(t.Context(), dir, name, args...))(t)
}

func mustRead(t *testing.T, file string) string {
	t.Helper()
	return string(value(os.ReadFile(file))(t))
}

func mustWrite(t *testing.T, file, content string) {
	t.Helper()
	ok(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o600)))
}

func commitAll(t *testing.T, repository string) {
	t.Helper()
	mustOutput(t, repository, "git", "add", "--all")
	mustOutput(t, repository, "git", "-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false",
		"commit", "--quiet", "--message=test")
}

// stubRepository copies this working tree, uncommitted changes included, to a repository in which make build takes no time.
func stubRepository(t *testing.T) string {
	t.Helper()
	root := mustOutput(t, ".", "git", "rev-parse", "--show-toplevel")
	mustOutput(t, root, "hack/parts.sh", "helm")
	stub := filepath.Join(t.TempDir(), "stub")
	mustOutput(t, ".", "go", "build", "-ldflags=-s -w", "-o", stub, "./testdata/stub")
	t.Setenv("STUB", stub)

	repository := t.TempDir()
	for name := range strings.SplitSeq(mustOutput(t, root, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"), "\x00") {
		info, err := os.Stat(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) || name == "" {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(repository, name)
		mustWrite(t, target, mustRead(t, filepath.Join(root, name)))
		ok(t, os.Chmod(target, info.Mode()))
	}
	mustWrite(t, filepath.Join(repository, "Makefile"), mustRead(t, "testdata/Makefile"))
	ok(t, os.Mkdir(filepath.Join(repository, "bin"), 0o755))
	for _, name := range []string{"helm", "helm.stamp"} {
		ok(t, os.Symlink(filepath.Join(root, "bin", name), filepath.Join(repository, "bin", name)))
	}
	mustOutput(t, repository, "git", "init", "--quiet")
	commitAll(t, repository)
	return repository
}

// chartVersion returns the version that the chart has, such as v1.2.3.
func chartVersion(t *testing.T, repository string) string {
	t.Helper()
	chart := mustRead(t, filepath.Join(repository, "manifests", "chart", "Chart.yaml"))
	return "v" + regexp.MustCompile(`(?m)^version: (.+)$`).FindStringSubmatch(chart)[1]
}

func archived(t *testing.T, archive string) map[string]string {
	t.Helper()
	entries := value(readTarGz(archive))(t)
	files := map[string]string{}
	for _, e := range entries {
		files[e.name] = string(e.content)
	}
	return files
}

// TestMake makes a release of several platforms and minor versions of Kubernetes from stubs.
func TestMake(t *testing.T) {
	for name, value := range map[string]string{"GOAMD64": "v3", "GOARM64": "v9.0", "GOPPC64": "power10", "GOFLAGS": "-trimpath -tags=mine"} {
		t.Setenv(name, value)
	}
	repository := stubRepository(t)
	version := chartVersion(t, repository)
	minors := []string{"1.37", "1.36"}
	platforms := []string{"windows/amd64", "linux/amd64", "linux/arm64", "darwin/arm64"}
	dist := filepath.Join(t.TempDir(), "dist")
	begin := func() *release {
		t.Helper()
		r := value(newRelease(t.Context(), repository, version, minors, platforms))(t)
		r.pgo = "1"
		return r
	}
	r := begin()
	ok(t, r.make(t.Context(), dist))
	// built is the line at the end of a program.
	built := func(name, platform, minor string) string {
		return strings.Join([]string{name, version, platform, "k8s" + minor, "v1", "v8.0", "power8", "flags=", "PGO=1"}, " ") + "\n"
	}
	checkPrograms := func(t *testing.T, archive, platform, minor string, programs ...string) {
		t.Helper()
		files := archived(t, filepath.Join(dist, archive))
		names := slices.Concat([]string{"LICENSE", licensesName}, programs)
		if strings.HasPrefix(archive, kubectlProgram) && !strings.HasPrefix(platform, "windows/") {
			names = append(names, completion)
		}
		slices.Sort(names)
		if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, names) {
			t.Errorf("%s holds %q, want %q", archive, got, names)
		}
		for _, name := range programs {
			if want := built(strings.TrimSuffix(name, ".exe"), platform, minor); !strings.HasSuffix(files[name], want) {
				t.Errorf("%s in %s ends with %q, want %q", name, archive, files[name][len(files[name])-len(want):], want)
			}
		}
		checkLicenses(t, files[licensesName])
	}

	t.Run("kubectl-plimsoll is for all platforms, from the newest minor version", func(t *testing.T) {
		for platform, program := range map[string]string{"linux/amd64": kubectlProgram, "linux/arm64": kubectlProgram, "darwin/arm64": kubectlProgram, "windows/amd64": kubectlProgram + ".exe"} {
			checkPrograms(t, kubectlProgram+"_"+version+"_"+strings.ReplaceAll(platform, "/", "_")+".tar.gz", platform, "1.37", program)
		}
		krew := mustRead(t, filepath.Join(dist, "krew.yaml"))
		if got := strings.Count(krew, "sha256: "); got != len(platforms) {
			t.Errorf("krew.yaml has %d platforms, want %d", got, len(platforms))
		}
	})
	t.Run("schedulers are for Linux, from each minor version", func(t *testing.T) {
		archives, err := filepath.Glob(filepath.Join(dist, "plimsoll_*"))
		if err != nil || len(archives) != 4 {
			t.Errorf("want archives of two minor versions and two platforms, got %q: %v", archives, err)
		}
		for _, minor := range minors {
			for _, arch := range []string{"amd64", "arm64"} {
				checkPrograms(t, "plimsoll_"+version+"_k8s"+minor+"_linux_"+arch+".tar.gz", "linux/"+arch, minor, schedulerProgram,
					loadWatcherProgram, rebalancerProgram)
			}
		}
	})
	for _, minor := range minors {
		t.Run("image of "+minor, func(t *testing.T) {
			dir := t.TempDir()
			ok(t, unpackTar(filepath.Join(dist, imageArchive(r.tag(minor))+".tar"), dir))
			checkImage(t, r, dir, minor, func(arch, name string) string { return built(name, "linux/"+arch, minor) })
		})
	}
	t.Run("SBOMs name the supplier", func(t *testing.T) {
		files, err := filepath.Glob(filepath.Join(dist, "*.cdx.json"))
		if err != nil || len(files) != 12+4+2 {
			t.Errorf("want SBOMs of 12 schedulers, load-watchers and rebalancers, 4 kubectl-plimsoll and 2 images, got %q: %v", files, err)
		}
		for _, file := range files {
			var bom cdx.BOM
			ok(t, json.Unmarshal([]byte(mustRead(t, file)), &bom))
			if s := bom.Metadata.Supplier; s == nil || s.Name != "Plimsoll" || s.URL == nil || !slices.Equal(*s.URL, []string{source}) {
				t.Errorf("%s has the supplier %+v", file, s)
			}
		}
	})
	t.Run("notes name the images", func(t *testing.T) {
		notes := mustRead(t, filepath.Join(dist, "release-notes.md"))
		for line := range strings.Lines(mustRead(t, filepath.Join(dist, imageList))) {
			digest, image, _ := strings.Cut(strings.TrimSpace(line), "  ")
			if want := "\n- `" + image + "@sha256:" + digest + "`\n"; !strings.Contains(notes, want) {
				t.Errorf("release-notes.md lacks %q:\n%s", want, notes)
			}
		}
	})

	t.Run("the chart has its README, and says whether it is of a pre-release", func(t *testing.T) {
		chart := archived(t, filepath.Join(dist, chartArchive(version)))
		if chart["plimsoll/README.md"] == "" || !strings.Contains(chart["plimsoll/Chart.yaml"], `artifacthub.io/prerelease: "false"`) {
			t.Errorf("the chart holds %q with\n%s", slices.Sorted(maps.Keys(chart)), chart["plimsoll/Chart.yaml"])
		}
		candidate := value(newRelease(t.Context(), repository, version, minors, platforms))(t)
		candidate.version += "-rc.1"
		candidate.out, candidate.work = t.TempDir(), t.TempDir()
		ok(t, candidate.exportCommit(t.Context()))
		archive := value(candidate.packageChart(t.Context()))(t)
		if chart := archived(t, archive)["plimsoll/Chart.yaml"]; !strings.Contains(chart, `artifacthub.io/prerelease: "true"`) {
			t.Errorf("Chart.yaml of a pre-release is\n%s", chart)
		}
	})

	t.Run("Helm pulls the chart that was pushed, and push refuses another chart", func(t *testing.T) {
		list := strings.TrimSpace(mustRead(t, filepath.Join(dist, imageList)))
		digest, reference, _ := strings.Cut(list[strings.LastIndex(list, "\n")+1:], "  ")
		if want := chartName + ":" + version[1:]; reference != want {
			t.Fatalf("images.txt ends with %q, want %q", reference, want)
		}
		server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
		defer server.Close()
		there := strings.TrimPrefix(server.URL, "http://") + strings.TrimPrefix(chartName, "ghcr.io")
		only := t.TempDir()
		archive := mustRead(t, filepath.Join(dist, chartArchive(version)))
		mustWrite(t, filepath.Join(only, chartArchive(version)), archive)
		mustWrite(t, filepath.Join(only, imageList), digest+"  "+there+":"+version[1:]+"\n")
		ok(t, push(t.Context(), only))
		pulled := t.TempDir()
		helm := filepath.Join(repository, "bin", "helm")
		printed := mustOutput(t, pulled, helm, "pull", "oci://"+there, "--version", version[1:], "--plain-http")
		if !strings.Contains(printed, digest) {
			t.Errorf("want the digest %s, got %s", digest, printed)
		}
		if mustRead(t, filepath.Join(pulled, chartArchive(version))) != archive {
			t.Error("the package that Helm pulls is not that of the release")
		}
		if shown := mustOutput(t, pulled, helm, "show", "chart", "oci://"+there, "--version", version[1:],
			"--plain-http"); !strings.Contains(shown, "\nversion: "+version[1:]) {
			t.Errorf("helm show chart prints\n%s", shown)
		}

		// But for the time and the license, the annotations are those of helm push.
		annotations := func(repository string) map[string]string {
			t.Helper()
			reference := value(name.NewTag(repository + ":" + version[1:]))(t)
			image := value(remote.Image(reference))(t)
			manifest := value(image.Manifest())(t)
			return manifest.Annotations
		}
		mustOutput(t, pulled, helm, "push", chartArchive(version), "oci://"+strings.TrimPrefix(server.URL, "http://")+"/helm",
			"--plain-http")
		want := annotations(strings.TrimPrefix(server.URL, "http://") + "/helm/plimsoll")
		delete(want, "org.opencontainers.image.created")
		want["org.opencontainers.image.licenses"] = "Apache-2.0"
		if got := annotations(there); len(want) < 8 || !maps.Equal(got, want) {
			t.Errorf("the chart has the annotations\n%q\nwant\n%q", got, want)
		}

		mustWrite(t, filepath.Join(only, imageList), strings.Repeat("0", 64)+"  "+there+":1.2.3\n")
		mustWrite(t, filepath.Join(only, chartArchive("v1.2.3")), archive)
		wantError(t, push(t.Context(), only), digest)
	})

	sums := mustRead(t, filepath.Join(dist, checksums))
	t.Run("ignored files and a later commit change nothing", func(t *testing.T) {
		mustWrite(t, filepath.Join(repository, ".git", "info", "exclude"), "*.orig\n")
		mustWrite(t, filepath.Join(repository, "manifests", "chart", "values.yaml.orig"), "ignored: true\n")
		again := begin()
		mustWrite(t, filepath.Join(repository, "LICENSE"), "another\n")
		commitAll(t, repository)
		ok(t, again.make(t.Context(), dist))
		if got := mustRead(t, filepath.Join(dist, checksums)); got != sums {
			t.Errorf("checksums.txt is\n%s\nwant\n%s", got, sums)
		}
	})
	t.Run("a release that fails does not change the last one", func(t *testing.T) {
		failing := begin()
		t.Setenv("STUB", "missing")
		wantError(t, failing.make(t.Context(), dist), "make ")
		for _, name := range append(listed([]byte(sums)), checksums) {
			if _, err := os.Stat(filepath.Join(dist, name)); err != nil {
				t.Error(err)
			}
		}
		if entries, err := os.ReadDir(dist); err != nil || len(entries) != len(listed([]byte(sums)))+1 {
			t.Errorf("the folder holds %v: %v", entries, err)
		}
	})
}

// checkImage checks the layout of an image in a folder. line returns the last line of a program.
func checkImage(t *testing.T, r *release, dir, minor string, line func(arch, name string) string) {
	t.Helper()
	images := value(layout.ImageIndexFromPath(dir))(t)
	top, err := images.IndexManifest()
	if err != nil || len(top.Manifests) != 1 {
		t.Fatalf("the layout is %+v: %v", top, err)
	}
	if got, want := top.Manifests[0].Annotations["io.containerd.image.name"], imageName+":"+r.tag(minor); got != want {
		t.Errorf("its name for ctr images import is %q, want %q", got, want)
	}
	index := value(images.ImageIndex(top.Manifests[0].Digest))(t)
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 2 {
		t.Fatalf("the index is %+v: %v", manifest, err)
	}
	for _, m := range manifest.Manifests {
		image := value(index.Image(m.Digest))(t)
		config := value(image.ConfigFile())(t)
		if want := dockerfileConfig(t, r); !reflect.DeepEqual(config.Config, want) {
			t.Errorf("the configuration is %+v, and in the Dockerfile %+v", config.Config, want)
		}
		layers, err := image.Layers()
		if err != nil || len(layers) != 2 {
			t.Fatalf("the layers are %v: %v", layers, err)
		}
		compressed := value(layers[1].Compressed())(t)
		file := filepath.Join(t.TempDir(), "layer.tar.gz")
		var content bytes.Buffer
		_, err = content.ReadFrom(compressed)
		ok(t, errors.Join(err, compressed.Close()))
		mustWrite(t, file, content.String())
		files := archived(t, file)
		if got, want := slices.Sorted(maps.Keys(files)), []string{
			"bin/" + schedulerProgram, "bin/" + kubectlProgram, "bin/" + loadWatcherProgram, "bin/" + rebalancerProgram, "licenses/" + licensesName,
		}; !slices.Equal(got, want) {
			t.Errorf("the layer holds %q, want %q", got, want)
		}
		for _, name := range []string{schedulerProgram, loadWatcherProgram, rebalancerProgram, kubectlProgram} {
			if want := line(m.Platform.Architecture, name); !strings.HasSuffix(files["bin/"+name], want) {
				t.Errorf("%s for %s does not end with %q", name, m.Platform, want)
			}
		}
		checkLicenses(t, files["licenses/"+licensesName])
		if !strings.Contains(files["licenses/"+licensesName], "\n"+certificatesModule+" v") {
			t.Error("the license of the certificates is missing")
		}
	}
}

func checkLicenses(t *testing.T, text string) {
	t.Helper()
	// All of it is under the same license.
	if !regexp.MustCompile(`(?s)^=+\nGo\n(.*\n)?golang\.org/x/mod v[^\n]+: LICENSE\n.*Copyright 2009 The Go Authors`).
		MatchString(text) {
		t.Errorf("%s is:\n%s", licensesName, text)
	}
}

// dockerfileConfig returns the configuration that the Dockerfile gives an image, with the search path and the folder
// that builders add.
func dockerfileConfig(t *testing.T, r *release) v1.Config {
	t.Helper()
	_, stage, _ := strings.Cut(mustRead(t, "../../Dockerfile"), "\nFROM ${BASE}\n")
	stage = strings.NewReplacer("${VERSION}", r.version, "${REVISION}", r.commit).Replace(stage)
	config := v1.Config{
		User: regexp.MustCompile(`(?m)^USER (.+)$`).FindStringSubmatch(stage)[1],
		Env:  []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, WorkingDir: "/", Labels: map[string]string{},
	}
	ok(t, json.Unmarshal([]byte(regexp.MustCompile(`(?m)^ENTRYPOINT (.+)$`).FindStringSubmatch(stage)[1]), &config.Entrypoint))
	for _, label := range regexp.MustCompile(`(?m)^(?:LABEL| ) +([a-z.]+)="([^"]*)"`).FindAllStringSubmatch(stage, -1) {
		config.Labels[label[1]] = label[2]
	}
	return config
}

func TestCertificates_HaveNoConstraints(t *testing.T) {
	var constrained, all int
	text := certificates()
	for root := range bundle.Roots() {
		all++
		if root.Constraint != nil {
			constrained++
			if bytes.Contains(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})) {
				c, err := x509.ParseCertificate(root.Certificate)
				t.Errorf("%v has constraints: %v", c.Subject, err)
			}
		}
	}
	if got := bytes.Count(text, []byte("BEGIN CERTIFICATE")); got != all-constrained || constrained == 0 {
		t.Errorf("there are %d certificates, want %d less %d", got, all, constrained)
	}
}

func TestNewRelease(t *testing.T) {
	repository := t.TempDir()
	for name, content := range map[string]string{
		"manifests/chart/Chart.yaml":  "name: plimsoll\nversion: 1.2.3\nappVersion: v1.2.3\n",
		"CHANGELOG.md":                "## [1.2.4] - 2026-02-03\n\n- Next.\n\n## [1.2.3] - 2026-02-03\n\n- This.\n",
		"go.mod":                      "module x\n\nrequire k8s.io/kubernetes v1.37.1\n",
		"hack/kubernetes/1.36/go.mod": "module x\n\nrequire k8s.io/kubernetes v1.36.4\n",
	} {
		mustWrite(t, filepath.Join(repository, name), content)
	}
	mustOutput(t, repository, "git", "init", "--quiet")
	commitAll(t, repository)
	minors, platforms := []string{"1.37", "1.36"}, []string{"darwin/arm64", "linux/amd64"}
	for _, tc := range []struct {
		name, version     string
		minors, platforms []string
		// want is what the error says; empty if there is none.
		want string
	}{
		{"all is well", "v1.2.3", minors, platforms, ""},
		{"another version than the chart has", "v1.2.4", minors, platforms, `must have "version: 1.2.4", but has "version: 1.2.3"`},
		{"a pre-release of the chart's version", "v1.2.3-rc.1", minors, platforms, `must have "version: 1.2.3-rc.1"`},
		{"an unknown minor version", "v1.2.3", []string{"1.20"}, platforms, `KUBERNETES_MINORS has "1.20", but must name some of 1.36 1.37`},
		{"a minor version twice", "v1.2.3", []string{"1.37", "1.37"}, platforms, "KUBERNETES_MINORS has 1.37 twice"},
		{"no minor version", "v1.2.3", nil, platforms, "KUBERNETES_MINORS is empty"},
		{"an unknown platform", "v1.2.3", minors, []string{"linux/amd46"}, `PLATFORMS has "linux/amd46"`},
		{"no platform of Linux", "v1.2.3", minors, []string{"darwin/arm64"}, "must name a platform of Linux"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := newRelease(t.Context(), repository, tc.version, tc.minors, tc.platforms)
			if (err != nil) != (tc.want != "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("want an error that says %q, got: %v", tc.want, err)
			}
			if err == nil && r.newest() != "1.37" {
				t.Errorf("the newest minor version is %s", r.newest())
			}
		})
	}
	t.Run("a changelog without the version", func(t *testing.T) {
		mustWrite(t, filepath.Join(repository, "CHANGELOG.md"), "# Changelog\n")
		commitAll(t, repository)
		_, err := newRelease(t.Context(), repository, "v1.2.3", minors, platforms)
		wantError(t, err, `CHANGELOG.md has no section "## [1.2.3] - YYYY-MM-DD"`)
	})
	t.Run("a file that git does not track, and does not show", func(t *testing.T) {
		mustOutput(t, repository, "git", "config", "status.showUntrackedFiles", "no")
		mustWrite(t, filepath.Join(repository, "cmd", "new.go"), "package cmd\n")
		_, err := newRelease(t.Context(), repository, "v1.2.3", minors, platforms)
		wantError(t, err, "?? cmd/new.go")
	})
}

func TestReleaseFiles(t *testing.T) {
	const sums = "00  images.txt\n00  krew.yaml\n"
	for _, tc := range []struct {
		name  string
		files map[string]string
		want  []string
		// wantError is what the error says; empty if there is none.
		wantError string
	}{
		{"none", nil, nil, ""},
		{"those of a release", map[string]string{checksums: sums, "images.txt": "", "krew.yaml": ""}, []string{checksums, "images.txt", "krew.yaml"}, ""},
		{"one of a release is gone", map[string]string{checksums: sums, "images.txt": ""}, []string{checksums, "images.txt"}, ""},
		{"other files", map[string]string{"thesis.odt": ""}, nil, "is not of a release"},
		{"another file beside a release", map[string]string{checksums: sums, "images.txt": "", "thesis.odt": ""}, nil, "has thesis.odt"},
		{"a folder beside a release", map[string]string{checksums: sums, "images.txt": "", "krew.yaml/thesis.odt": ""}, nil, "has krew.yaml"},
		{"what another project released", map[string]string{checksums: "00  thesis.odt\n", "thesis.odt": ""}, nil, "is not of a release"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, content := range tc.files {
				mustWrite(t, filepath.Join(dir, name), content)
			}
			got, err := releaseFiles(dir)
			if !slices.Equal(got, tc.want) || (err != nil) != (tc.wantError != "") ||
				err != nil && !strings.Contains(err.Error(), tc.wantError) {
				t.Errorf("the files are %q and the error %v, want %q and %q", got, err, tc.want, tc.wantError)
			}
		})
	}
}

func TestLicenseFiles(t *testing.T) {
	cache := t.TempDir()
	for _, name := range []string{
		"example.com/!a@v1.0.0/LICENSE", "example.com/!a@v1.0.0/NOTICE.md", "example.com/!a@v1.0.0/third_party/COPYING", "example.com/!a@v1.0.0/license.go",
		"example.com/!a@v1.0.0/testdata/LICENSE", "example.com/!a@v1.0.0/licensed.txt", "example.com/none@v1.0.0/README.md",
	} {
		mustWrite(t, filepath.Join(cache, name), name)
	}
	r := &release{}
	files := value(r.licenseFiles(cache, module.Version{Path: "example.com/A", Version: "v1.0.0"}))(t)
	var names []string
	for _, f := range files {
		names = append(names, f.name)
	}
	if want := []string{"LICENSE", "NOTICE.md", "third_party/COPYING"}; !slices.Equal(names, want) {
		t.Errorf("the files are %q, want %q", names, want)
	}
	for _, path := range []string{"example.com/none", "example.com/missing"} {
		_, err := r.licenseFiles(cache, module.Version{Path: path, Version: "v1.0.0"})
		wantError(t, err, path)
	}
}

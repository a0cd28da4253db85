package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/test/cluster/build"
)

// krewManifest holds all fields that krew knows of a plugin's manifest.
type krewManifest struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string         `json:"version"`
		ShortDescription string         `json:"shortDescription"`
		Description      string         `json:"description"`
		Caveats          string         `json:"caveats"`
		Homepage         string         `json:"homepage"`
		Platforms        []krewPlatform `json:"platforms"`
	} `json:"spec"`
}

type krewPlatform struct {
	URI      string                `json:"uri"`
	Sha256   string                `json:"sha256"`
	Selector *metav1.LabelSelector `json:"selector"`
	Files    []struct{ From, To string }
	Bin      string `json:"bin"`
}

func readKrewManifest(t *testing.T, file string) (m krewManifest) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, &m); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return m
}

// checkKrewManifest checks what krew's documentation and its index ask of a manifest.
func checkKrewManifest(t *testing.T, m krewManifest) {
	t.Helper()
	if m.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || m.Kind != "Plugin" {
		t.Errorf("the kind is %s of %s", m.Kind, m.APIVersion)
	}
	if !regexp.MustCompile(`^[a-z][a-z-]*$`).MatchString(m.Metadata.Name) {
		t.Errorf("metadata.name is %q", m.Metadata.Name)
	}
	if _, err := version.ParseSemantic(m.Spec.Version); err != nil || !strings.HasPrefix(m.Spec.Version, "v") {
		t.Errorf("spec.version is %q: %v", m.Spec.Version, err)
	}
	if d := m.Spec.ShortDescription; d == "" || len(d) > 50 || strings.Contains(d, "\n") || strings.HasSuffix(d, ".") {
		t.Errorf("spec.shortDescription is %q (%d characters), must be one line of at most 50", d, len(d))
	}
	for name, text := range map[string]string{"description": m.Spec.Description, "caveats": m.Spec.Caveats} {
		for line := range strings.Lines(text) {
			if len(line) > 80 {
				t.Errorf("spec.%s: a line of more than 80 characters: %s", name, line)
			}
		}
	}
	if u, err := url.Parse(m.Spec.Homepage); err != nil || u.Scheme != "https" {
		t.Errorf("spec.homepage is %q", m.Spec.Homepage)
	}
	if len(m.Spec.Platforms) == 0 {
		t.Error("spec.platforms is empty")
	}
	for i, p := range m.Spec.Platforms {
		if u, err := url.Parse(p.URI); err != nil || u.Scheme != "https" || !strings.HasSuffix(u.Path, ".tar.gz") {
			t.Errorf("spec.platforms[%d].uri is %q", i, p.URI)
		}
		if !strings.Contains(p.URI, "/"+m.Spec.Version+"/") {
			t.Errorf("spec.platforms[%d].uri %q is not of version %s", i, p.URI, m.Spec.Version)
		}
		if !regexp.MustCompile(`^[a-f0-9]{64}$`).MatchString(p.Sha256) {
			t.Errorf("spec.platforms[%d].sha256 is %q", i, p.Sha256)
		}
		if p.Bin != "kubectl-"+m.Metadata.Name {
			t.Errorf("spec.platforms[%d].bin is %q", i, p.Bin)
		}
		if platforms := platformsOf(t, p); len(platforms) != 1 || !strings.Contains(p.URI, "_"+strings.ReplaceAll(platforms[0], "/", "_")+".") {
			t.Errorf("spec.platforms[%d] is for %q, and its uri %q", i, platforms, p.URI)
		}
	}
}

// platformsOf returns the platforms that krew knows and the selector matches.
func platformsOf(t *testing.T, p krewPlatform) (matched []string) {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(p.Selector)
	if err != nil {
		t.Fatal(err)
	}
	for _, platform := range []string{"windows/386", "windows/amd64", "linux/386", "linux/amd64", "linux/arm", "linux/arm64", "linux/ppc64le", "darwin/386", "darwin/amd64", "darwin/arm64"} {
		os, arch, _ := strings.Cut(platform, "/")
		if selector.Matches(labels.Set{"os": os, "arch": arch}) {
			matched = append(matched, platform)
		}
	}
	return matched
}

func TestKrew(t *testing.T) {
	builder, err := build.New(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	if err := builder.Build(t.Context(), build.KubectlPlimsoll()); err != nil {
		t.Fatal(err)
	}
	krew := func(out string, env ...string) error {
		cmd := exec.CommandContext(t.Context(), "hack/krew.sh")
		cmd.Dir = builder.Root()
		cmd.Env = append(append(os.Environ(), "BINARIES=prebuilt", "OUT="+out), env...)
		output, err := cmd.CombinedOutput()
		if err != nil {
			return errors.New(string(output))
		}
		return nil
	}
	platform := "linux/" + runtime.GOARCH
	out := t.TempDir()
	if err := krew(out, "VERSION=v1.2.3", "PLATFORMS="+platform); err != nil {
		t.Fatal(err)
	}
	m := readKrewManifest(t, filepath.Join(out, "plimsoll.yaml"))
	checkKrewManifest(t, m)
	if m.Metadata.Name != "plimsoll" || m.Spec.Version != "v1.2.3" || len(m.Spec.Platforms) != 1 || !slices.Equal(platformsOf(t, m.Spec.Platforms[0]), []string{platform}) {
		t.Fatalf("the manifest is %+v", m)
	}

	t.Run("what krew installs runs", func(t *testing.T) {
		p := m.Spec.Platforms[0]
		archive, err := os.ReadFile(filepath.Join(out, path.Base(p.URI)))
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(archive); hex.EncodeToString(sum[:]) != p.Sha256 {
			t.Errorf("the checksum is %x, and %s in the manifest", sum, p.Sha256)
		}
		dir := t.TempDir()
		plain, err := gzip.NewReader(bytes.NewReader(archive))
		if err != nil {
			t.Fatal(err)
		}
		var files []string
		for r := tar.NewReader(plain); ; {
			header, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, header.Name)
			if err := writeFile(filepath.Join(dir, filepath.Base(header.Name)), header.FileInfo().Mode(), r); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(files, []string{"LICENSE", "kubectl-plimsoll"}) {
			t.Errorf("the archive holds %q", files)
		}
		output, err := exec.CommandContext(t.Context(), filepath.Join(dir, p.Bin), "--version").Output()
		if err != nil || !strings.HasPrefix(string(output), "Plimsoll ") {
			t.Errorf("it prints %q: %v", output, err)
		}
	})
	t.Run("the same program makes the same archive", func(t *testing.T) {
		again := t.TempDir()
		if err := krew(again, "VERSION=v1.2.3", "PLATFORMS="+platform); err != nil {
			t.Fatal(err)
		}
		if got := readKrewManifest(t, filepath.Join(again, "plimsoll.yaml")).Spec.Platforms[0].Sha256; got != m.Spec.Platforms[0].Sha256 {
			t.Errorf("the checksum is %s, then %s", m.Spec.Platforms[0].Sha256, got)
		}
	})
	t.Run("what krew would refuse is refused", func(t *testing.T) {
		for _, tt := range []struct{ version, platforms, want string }{
			{"1.2", platform, "VERSION=v1.2.3"},
			{"v1.2.3-4-gabcdef-dirty+x", platform, "VERSION=v1.2.3"},
			{"v1.2.3", "linux/amd64 linux/arm64", "one platform"},
		} {
			err := krew(t.TempDir(), "VERSION="+tt.version, "PLATFORMS="+tt.platforms)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s for %s: %v, want an error that says %q", tt.version, tt.platforms, err, tt.want)
			}
		}
	})
}

// TestKrew_ManifestOfAllPlatforms checks the manifest in the repository, with a version and checksums in place.
func TestKrew_ManifestOfAllPlatforms(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "manifests", "krew", "plimsoll.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	filled := filepath.Join(t.TempDir(), "plimsoll.yaml")
	replaced := strings.NewReplacer("SHA256", strings.Repeat("a", 64), "VERSION", "v1.2.3").Replace(string(text))
	if err := os.WriteFile(filled, []byte(replaced), 0o600); err != nil {
		t.Fatal(err)
	}
	m := readKrewManifest(t, filled)
	checkKrewManifest(t, m)
	var all []string
	for _, p := range m.Spec.Platforms {
		all = append(all, platformsOf(t, p)...)
	}
	if want := []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"}; !slices.Equal(all, want) {
		t.Errorf("it is for %q, want %q", all, want)
	}
}

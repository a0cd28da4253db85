package release

import (
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

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
	text := check.Value(os.ReadFile(file))(t)
	if err := yaml.UnmarshalStrict(text, &m); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return m
}

func platformsOf(t *testing.T, p krewPlatform) (matched []string) {
	t.Helper()
	selector := check.Value(metav1.LabelSelectorAsSelector(p.Selector))(t)
	for _, platform := range []string{"windows/386", "windows/amd64", "linux/386", "linux/amd64", "linux/arm", "linux/arm64", "linux/ppc64le", "darwin/386", "darwin/amd64", "darwin/arm64"} {
		os, arch, _ := strings.Cut(platform, "/")
		if selector.Matches(labels.Set{"os": os, "arch": arch}) {
			matched = append(matched, platform)
		}
	}
	return matched
}

// checkKrew checks the manifest of a release of version v1.2.3 for this platform alone, and installs what it names. kubernetes is
// the version of Kubernetes that kubectl-plimsoll is built from.
func checkKrew(t *testing.T, dist, kubernetes string) {
	t.Helper()
	m := readKrewManifest(t, filepath.Join(dist, "krew.yaml"))
	platform := "linux/" + runtime.GOARCH
	if m.Metadata.Name != "plimsoll" || m.Spec.Version != "v1.2.3" || len(m.Spec.Platforms) != 1 ||
		!slices.Equal(platformsOf(t, m.Spec.Platforms[0]), []string{platform}) {
		t.Fatalf("the manifest is %+v", m)
	}
	p := m.Spec.Platforms[0]
	archive := filepath.Join(dist, path.Base(p.URI))
	if sum := sha256Of(t, archive); sum != p.Sha256 {
		t.Errorf("the checksum is %s, and %s in the manifest", sum, p.Sha256)
	}
	dir := t.TempDir()
	check.OK(t, unpackLayer(archive, dir))
	check.Equal(t, "the archive holds", []string{"LICENSE", "THIRD_PARTY_LICENSES", "kubectl-plimsoll", "kubectl_complete-plimsoll"},
		filesOf(t, dir))
	check.Equal(t, "what krew installs prints", "Plimsoll v1.2.3\nKubernetes "+kubernetes+"\n",
		run(t, filepath.Join(dir, p.Bin), "--version"))
}

// TestKrew_ManifestOfAllPlatforms checks the manifest in the repository, with a version and checksums in place.
func TestKrew_ManifestOfAllPlatforms(t *testing.T) {
	text := check.Value(os.ReadFile(filepath.Join("..", "..", "manifests", "krew", "plimsoll.yaml")))(t)
	filled := filepath.Join(t.TempDir(), "plimsoll.yaml")
	replaced := strings.NewReplacer("SHA256", strings.Repeat("a", 64), "VERSION", "v1.2.3").Replace(string(text))
	check.OK(t, os.WriteFile(filled, []byte(replaced), 0o600))
	m := readKrewManifest(t, filled)
	var all []string
	for _, p := range m.Spec.Platforms {
		platforms := platformsOf(t, p)
		if len(platforms) != 1 || !strings.HasSuffix(p.URI, "/v1.2.3/kubectl-plimsoll_v1.2.3_"+strings.ReplaceAll(platforms[0], "/", "_")+".tar.gz") {
			t.Errorf("%s is for %q", p.URI, platforms)
		}
		all = append(all, platforms...)
	}
	check.Equal(t, "it is for", []string{
		"linux/amd64", "linux/arm64", "linux/ppc64le", "darwin/amd64", "darwin/arm64", "windows/amd64",
	}, all)
}

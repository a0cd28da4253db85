package manifests_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

const repository = "ghcr.io/plimsoll-scheduler/plimsoll:0.2.0-k8s"

// minors are the minor versions that a release has, the oldest first. A preview is in no release.
func minors(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "hack", "kubernetes", "*", "go.mod"))
	if err != nil || len(files) == 0 {
		t.Fatalf("go.mod of other minors: %v, %v", files, err)
	}
	var minors []string
	for _, file := range files {
		minor := filepath.Base(filepath.Dir(file))
		if !strings.Contains(pinned(t, "hack", "kubernetes", minor, "go.mod"), "-") {
			minors = append(minors, minor)
		}
	}
	newest := strings.SplitN(strings.TrimPrefix(kubernetesVersion(t), "v"), ".", 3)
	return append(minors, newest[0]+"."+newest[1])
}

// TestDocs_ImageTags expects a row for each minor, the newest first, with the version that its go.mod has.
func TestDocs_ImageTags(t *testing.T) {
	tag := strings.SplitN(repository, ":", 2)[1]
	var want []string
	for _, minor := range slices.Backward(minors(t)) {
		mod := []string{"hack", "kubernetes", minor, "go.mod"}
		if len(want) == 0 {
			mod = mod[3:]
		}
		want = append(want, fmt.Sprintf("| `%s%s` | Kubernetes %s |", tag, minor, strings.TrimPrefix(pinned(t, mod...), "v")))
	}
	got := regexp.MustCompile("(?m)^\\| `[^`|]+-k8s[^`|]*` \\| Kubernetes [^|]*\\|").
		FindAllString(string(read(t, "docs", "install.md")), -1)
	check.Equal(t, "the table of image tags", want, got)
}

// TestChart_ImageOfMinor expects an image for every minor that this tree is built for, and for no other.
func TestChart_ImageOfMinor(t *testing.T) {
	all := minors(t)
	want := map[string]string{
		"1.999.0":               all[len(all)-1], // a newer cluster gets the newest
		all[0] + ".3-gke.100":   all[0],
		all[0] + ".3+k3s1":      all[0],
		all[1] + ".0-rc.1":      all[1],
		"v" + all[1] + ".12345": all[1],
	}
	for _, minor := range all {
		want[minor+".0"] = minor
	}
	at := func(t *testing.T, version, values string) ([]byte, error) {
		t.Helper()
		return helm(t).Template(t.Context(), "plimsoll", "plimsoll-system", values, "--kube-version", version)
	}
	wantImage := func(t *testing.T, stream []byte, want string) {
		t.Helper()
		if image := containerOf(t, objects(t, stream)).Image; !strings.HasSuffix(image, want) {
			t.Errorf("the image is %s, want %s", image, want)
		}
	}
	for version, minor := range want {
		t.Run(version, func(t *testing.T) { wantImage(t, check.Value(at(t, version, ""))(t), repository+minor) })
	}
	t.Run("a tag of one's own", func(t *testing.T) { wantImage(t, template(t, "image: {tag: mine}"), ":mine") })
	t.Run("a tag of an older minor", func(t *testing.T) {
		wantImage(t, check.Value(at(t, all[1]+".0", "image: {tag: 0.2.0-k8s"+all[0]+"}"))(t), repository+all[0])
	})
	t.Run("a tag of a newer minor is refused", func(t *testing.T) {
		_, err := at(t, all[0]+".9", "image: {tag: 0.2.0-k8s"+all[1]+"}")
		check.Error(t, err, "image.tag is 0.2.0-k8s"+all[1]+", but the cluster's version is v"+all[0]+".9")
	})
	for _, target := range []string{"Deployment", "OpenShift", "StaticPod"} {
		t.Run("target "+target+" refuses a cluster that is too old", func(t *testing.T) {
			values := "target: " + target
			if target == "StaticPod" {
				values += "\nconfig: {profiles: [{schedulerName: default-scheduler}]}"
			}
			var major, minor int
			check.Value(fmt.Sscanf(all[0], "%d.%d", &major, &minor))(t)
			old := fmt.Sprintf("%d.%d.9", major, minor-1)
			_, err := at(t, old, values)
			check.Error(t, err, "v"+old, "oldest image is for Kubernetes "+all[0], "must not be newer than the API server")
		})
	}
}

package manifests_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

const ownImage = "registry.example.com/plimsoll:0.2.0-k8s1.37"

var ofImage = regexp.MustCompile(`ghcr\.io/plimsoll-scheduler/plimsoll:[^"\s]+`)

// TestOwnImage expects that the documented change sets the image in each way of installing, and changes nothing else.
func TestOwnImage(t *testing.T) {
	dir := t.TempDir()
	check.OK(t, os.CopyFS(filepath.Join(dir, "manifests"), os.DirFS(filepath.Join(root, "manifests"))))
	// documented is the kustomization in docs/install.md.
	_, documented, _ := strings.Cut(string(read(t, "docs", "install.md")), "## Custom image")
	_, documented, _ = strings.Cut(documented, "```yaml\n")
	documented, _, found := strings.Cut(documented, "```")
	if !found {
		t.Fatal("docs/install.md has no kustomization")
	}
	kubectl := check.Value(filepath.Abs(filepath.Join(root, "bin", "kubectl")))(t)
	for _, tt := range []struct {
		folder string
		files  []string
	}{
		{"manifests", []string{"second-scheduler.yaml"}},
		{"manifests/openshift", []string{"openshift/configmap.yaml", "openshift/rbac.yaml", "openshift/secondaryscheduler.yaml"}},
	} {
		own := filepath.Join(dir, "own")
		check.OK(t, os.MkdirAll(own, 0o700))
		text := regexp.MustCompile(`(?m)^- https://.*$`).ReplaceAllString(documented, "- ../"+tt.folder)
		check.OK(t, os.WriteFile(filepath.Join(own, "kustomization.yaml"), []byte(text), 0o600))
		output, err := exec.CommandContext(t.Context(), kubectl, "kustomize", own).Output()
		if err != nil {
			t.Fatalf("%s: %v", tt.folder, err)
		}
		var want []*unstructured.Unstructured
		for _, file := range tt.files {
			content := read(t, append([]string{"manifests"}, strings.Split(file, "/")...)...)
			want = append(want, objects(t, []byte(ofImage.ReplaceAllString(string(content), ownImage)))...)
		}
		got := objects(t, output)
		byName := func(a, b *unstructured.Unstructured) int {
			return strings.Compare(a.GetKind()+a.GetNamespace()+"/"+a.GetName(), b.GetKind()+b.GetNamespace()+"/"+b.GetName())
		}
		for _, o := range slices.Concat(want, got) {
			// Where a document ends with the configuration, the newline at its end belongs to both.
			if config, ok, _ := unstructured.NestedString(o.Object, "data", "config.yaml"); ok {
				check.OK(t, unstructured.SetNestedField(o.Object, strings.TrimSpace(config), "data", "config.yaml"))
			}
		}
		slices.SortFunc(want, byName)
		slices.SortFunc(got, byName)
		check.Equal(t, tt.folder, want, got)
		if !strings.Contains(string(output), ownImage) {
			t.Errorf("%s does not have the image", tt.folder)
		}
	}

	stream := render(t, "image: {repository: registry.example.com/plimsoll, tag: 0.2.0-k8s1.37}")
	check.Equal(t, "the image of the chart", ownImage, containerOf(t, stream).Image)

	command := regexp.MustCompile(`(?m)^    (sed -i .*)$`).FindStringSubmatch(string(read(t, "docs", "default-scheduler.md")))
	if command == nil {
		t.Fatal("docs/default-scheduler.md has no command that sets the image")
	}
	shell := exec.CommandContext(t.Context(), "sh", "-euc", command[1])
	shell.Dir = filepath.Join(dir, "manifests", "default-scheduler")
	if output, err := shell.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	got := check.Value(os.ReadFile(filepath.Join(shell.Dir, "patches", "kube-scheduler+strategic.yaml")))(t)
	want := ofImage.ReplaceAllString(string(read(t, "manifests", "default-scheduler", "patches", "kube-scheduler+strategic.yaml")),
		ownImage)
	check.Equal(t, "the patch", want, strings.TrimSpace(string(got)))
}

// TestDocs_NoPredictableNamesInTmp: another user of the machine may have made a link of that name.
func TestDocs_NoPredictableNamesInTmp(t *testing.T) {
	pages := filesBelow(t, ".", ".md")
	for page, text := range pages {
		fenced := false
		for line := range strings.Lines(text) {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				fenced = !fenced
			}
			if (fenced || strings.HasPrefix(line, "    ")) && strings.Contains(line, "/tmp/") {
				t.Errorf("%s: %s", page, line)
			}
		}
	}
	if len(pages) < 10 {
		t.Errorf("there are %d pages", len(pages))
	}
}

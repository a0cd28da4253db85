package manifests_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plimsoll-scheduler/plimsoll/test/cluster/build"
)

const ownImage = "registry.example.com/plimsoll:0.2.0-k8s1.37"

// ofImage matches the image in the rendered files, of any minor version of Kubernetes.
var ofImage = regexp.MustCompile(`ghcr\.io/plimsoll-scheduler/plimsoll:[^"\s]+`)

// TestOwnImage expects that the documented change sets the image in each way of installing, and changes nothing else.
func TestOwnImage(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "manifests"), os.DirFS(filepath.Join(root, "manifests"))); err != nil {
		t.Fatal(err)
	}
	// documented is the kustomization in docs/install.md.
	_, documented, _ := strings.Cut(string(read(t, "docs", "install.md")), "## Custom image")
	_, documented, _ = strings.Cut(documented, "```yaml\n")
	documented, _, found := strings.Cut(documented, "```")
	if !found {
		t.Fatal("docs/install.md has no kustomization")
	}
	kubectl, err := filepath.Abs(filepath.Join(root, "bin", build.Kubectl().Name))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		folder string
		files  []string
	}{
		{"manifests", []string{"second-scheduler.yaml"}},
		{"manifests/openshift", []string{"openshift/configmap.yaml", "openshift/rbac.yaml", "openshift/secondaryscheduler.yaml"}},
	} {
		own := filepath.Join(dir, "own")
		if err := os.MkdirAll(own, 0o700); err != nil {
			t.Fatal(err)
		}
		text := regexp.MustCompile(`(?m)^- https://.*$`).ReplaceAllString(documented, "- ../"+tt.folder)
		if err := os.WriteFile(filepath.Join(own, "kustomization.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
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
				if err := unstructured.SetNestedField(o.Object, strings.TrimSpace(config), "data", "config.yaml"); err != nil {
					t.Fatal(err)
				}
			}
		}
		slices.SortFunc(want, byName)
		slices.SortFunc(got, byName)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.folder, diff)
		}
		if !strings.Contains(string(output), ownImage) {
			t.Errorf("%s does not have the image", tt.folder)
		}
	}

	stream := render(t, "image: {repository: registry.example.com/plimsoll, tag: 0.2.0-k8s1.37}")
	if got := one[appsv1.Deployment](t, stream, "Deployment").Spec.Template.Spec.Containers[0].Image; got != ownImage {
		t.Errorf("the chart renders the image %s", got)
	}

	command := regexp.MustCompile(`(?m)^    (sed -i .*)$`).FindStringSubmatch(string(read(t, "docs", "default-scheduler.md")))
	if command == nil {
		t.Fatal("docs/default-scheduler.md has no command that sets the image")
	}
	shell := exec.CommandContext(t.Context(), "sh", "-euc", command[1])
	shell.Dir = filepath.Join(dir, "manifests", "default-scheduler")
	if output, err := shell.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	got, err := os.ReadFile(filepath.Join(shell.Dir, "patches", "kube-scheduler+strategic.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := ofImage.ReplaceAllString(
		string(read(t, "manifests", "default-scheduler", "patches", "kube-scheduler+strategic.yaml")),
		ownImage,
	)
	if diff := cmp.Diff(want, strings.TrimSpace(string(got))); diff != "" {
		t.Errorf("the patch (-want +got):\n%s", diff)
	}
}

// TestDocs_NoPredictableNamesInTmp: another user of the machine may have made a link of that name.
func TestDocs_NoPredictableNamesInTmp(t *testing.T) {
	files := 0
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "bin" || entry.Name() == ".git") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		files++
		content, err := os.ReadFile(path)
		fenced := false
		for line := range strings.Lines(string(content)) {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				fenced = !fenced
			}
			if (fenced || strings.HasPrefix(line, "    ")) && strings.Contains(line, "/tmp/") {
				t.Errorf("%s: %s", path, line)
			}
		}
		return err
	})
	if err != nil || files < 10 {
		t.Errorf("%d files: %v", files, err)
	}
}

package manifests_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster/build"
	"github.com/plimsoll-scheduler/plimsoll/test/manifests"
)

const root = "../.."

// TestMain builds the programs that are missing.
func TestMain(m *testing.M) {
	builder, err := build.New(context.Background(), os.Stderr)
	if err == nil {
		err = builder.Build(context.Background(), build.Helm(), build.Kubeconform(), build.Kubectl(), build.Promtool())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// helm skips the test with -short.
func helm(t *testing.T) manifests.Helm {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: the chart is not rendered.")
	}
	// go test caches a result until a file that the test has opened changes. So the test opens all files of the chart.
	filesBelow(t, "manifests", "")
	filesBelow(t, "hack", "")
	return manifests.NewHelm(root, t.TempDir())
}

// operatorNamespace is where OpenShift's operator runs, and the only namespace that the chart accepts with target OpenShift.
const operatorNamespace = "openshift-secondary-scheduler-operator"

func render(t *testing.T, values string) []*unstructured.Unstructured {
	t.Helper()
	return objects(t, template(t, values))
}

func template(t *testing.T, values string) []byte {
	t.Helper()
	namespace := "plimsoll-system"
	if strings.Contains(values, "target: OpenShift") {
		namespace = operatorNamespace
	}
	return check.Value(helm(t).Template(t.Context(), "plimsoll", namespace, values))(t)
}

func objects(t *testing.T, stream []byte) []*unstructured.Unstructured {
	t.Helper()
	return check.Value(manifests.Objects(stream))(t)
}

func find[T any](t *testing.T, objects []*unstructured.Unstructured, kind string) []*T {
	t.Helper()
	var found []*T
	for _, o := range objects {
		if o.GetKind() != kind {
			continue
		}
		typed := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, typed, true); err != nil {
			t.Fatalf("%s %s: %v", kind, o.GetName(), err)
		}
		found = append(found, typed)
	}
	return found
}

// one returns the only object of a kind.
func one[T any](t *testing.T, objects []*unstructured.Unstructured, kind string) *T {
	t.Helper()
	found := find[T](t, objects, kind)
	if len(found) != 1 {
		t.Fatalf("there are %d objects of kind %s, want one", len(found), kind)
	}
	return found[0]
}

// containerOf returns the container of the only Deployment.
func containerOf(t *testing.T, objects []*unstructured.Unstructured) corev1.Container {
	t.Helper()
	return one[appsv1.Deployment](t, objects, "Deployment").Spec.Template.Spec.Containers[0]
}

func read(t *testing.T, elements ...string) []byte {
	t.Helper()
	data := check.Value(os.ReadFile(filepath.Join(append([]string{root}, elements...)...)))(t)
	return bytes.TrimSpace(data)
}

// filesBelow returns the text of the files below a folder of this repository with the suffix, by their path.
func filesBelow(t *testing.T, folder, suffix string) map[string]string {
	t.Helper()
	files := map[string]string{}
	check.OK(t, filepath.WalkDir(filepath.Join(root, folder), func(file string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && slices.Contains([]string{".git", "bin", "dist"}, entry.Name()) {
			return fs.SkipDir
		}
		if err != nil || !entry.Type().IsRegular() || !strings.HasSuffix(file, suffix) {
			return err
		}
		text, err := os.ReadFile(file)
		name, _ := filepath.Rel(root, file) // it is below
		files[name] = string(text)
		return err
	}))
	return files
}

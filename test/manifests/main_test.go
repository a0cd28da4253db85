package manifests_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/plimsoll-scheduler/plimsoll/test/cluster/build"
	"github.com/plimsoll-scheduler/plimsoll/test/manifests"
)

// root is the root of this repository, as seen from the folder that tests run in.
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

// helm returns Helm, and makes the result of the test depend on the chart.
func helm(t *testing.T) manifests.Helm {
	t.Helper()
	// go test caches a result until a file that the test itself has opened changes, so the test opens all files of the chart.
	for _, dir := range []string{"manifests", "hack"} {
		if err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry os.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() {
				_, err = os.ReadFile(path)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	return manifests.NewHelm(root, t.TempDir())
}

// operatorNamespace is where OpenShift's operator runs, and the only namespace that the chart accepts with target OpenShift.
const operatorNamespace = "openshift-secondary-scheduler-operator"

// render returns the objects of a release named plimsoll in plimsoll-system, or in operatorNamespace with target OpenShift.
func render(t *testing.T, values string) []*unstructured.Unstructured {
	t.Helper()
	return objects(t, template(t, values))
}

// template returns the YAML of what render returns.
func template(t *testing.T, values string) []byte {
	t.Helper()
	namespace := "plimsoll-system"
	if strings.Contains(values, "target: OpenShift") {
		namespace = operatorNamespace
	}
	stream, err := helm(t).Template(t.Context(), "plimsoll", namespace, values)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

func objects(t *testing.T, stream []byte) []*unstructured.Unstructured {
	t.Helper()
	objects, err := manifests.Objects(stream)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// find returns the objects of a kind.
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

// read returns a file of this repository.
func read(t *testing.T, elements ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{root}, elements...)...))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSpace(data)
}

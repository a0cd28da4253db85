package manifests_test

import (
	"bytes"
	"context"
	"errors"
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
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster/build"
	"github.com/plimsoll-scheduler/plimsoll/test/manifests"
)

const root = "../.."

// TestMain builds the programs that are missing.
func TestMain(m *testing.M) {
	if _, err := build.Programs(context.Background(), os.Stderr, "helm", "kubectl", "promtool"); err != nil {
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

type objectList = []*unstructured.Unstructured

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

// validate returns an error if an object of a YAML stream has a field that its kind does not have, or a value of another type. The
// end-to-end tests apply custom resources to an API server.
func validate(stream []byte) error {
	objects, err := manifests.Objects(stream)
	if err != nil {
		return err
	}
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	var errs []error
	for _, o := range objects {
		if group := o.GroupVersionKind().Group; group == "monitoring.coreos.com" || group == "operator.openshift.io" {
			continue
		}
		data, err := o.MarshalJSON()
		if err == nil {
			_, _, err = strict.Decode(data, nil, nil)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err))
		}
	}
	return errors.Join(errs...)
}

func TestValidate(t *testing.T) {
	for manifest, want := range map[string]string{
		"apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {port: 1}\n":                                           "port",
		"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replicas: two, selector: {}, template: {}}\n": "replicas",
		"apiVersion: v1\nkind: Server\nmetadata: {name: a}\n":                                                             "no kind",
	} {
		check.Error(t, validate([]byte(manifest)), want)
	}
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
	check.Require(t, fmt.Sprintf("objects of kind %s", kind), 1, len(found))
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

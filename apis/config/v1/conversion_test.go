package v1_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	v1 "github.com/plimsoll-scheduler/plimsoll/apis/config/v1"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// fill sets a value, and all that it has, to other values than zero. Lists and maps get one element.
func fill(t *testing.T, value reflect.Value) {
	t.Helper()
	switch value.Interface().(type) {
	case resource.Quantity:
		value.Set(reflect.ValueOf(resource.MustParse("250m")))
		return
	case metav1.Duration:
		value.Set(reflect.ValueOf(metav1.Duration{Duration: 3 * time.Second}))
		return
	}
	switch value.Kind() {
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		fill(t, value.Elem())
	case reflect.Struct:
		for i := range value.NumField() {
			fill(t, value.Field(i))
		}
	case reflect.Slice:
		value.Set(reflect.MakeSlice(value.Type(), 1, 1))
		fill(t, value.Index(0))
	case reflect.Map:
		key, element := reflect.New(value.Type().Key()).Elem(), reflect.New(value.Type().Elem()).Elem()
		fill(t, key)
		fill(t, element)
		value.Set(reflect.MakeMap(value.Type()))
		value.SetMapIndex(key, element)
	case reflect.String:
		value.SetString("text")
	case reflect.Bool:
		value.SetBool(true)
	case reflect.Int32, reflect.Int64:
		value.SetInt(7)
	case reflect.Float64:
		value.SetFloat(0.5)
	default:
		t.Fatalf("no value of type %s", value.Type())
	}
}

// eachKind calls do with arguments of each kind that have a value in every field.
func eachKind(t *testing.T, scheme *runtime.Scheme, do func(kind string, filled runtime.Object)) {
	t.Helper()
	kinds := 0
	for kind, of := range scheme.KnownTypes(v1.SchemeGroupVersion) {
		if strings.HasSuffix(kind, "Args") {
			kinds++
			value := reflect.New(of)
			fill(t, value.Elem())
			filled := value.Interface().(runtime.Object)
			filled.GetObjectKind().SetGroupVersionKind(v1.SchemeGroupVersion.WithKind(kind))
			do(kind, filled)
		}
	}
	check.Equal(t, "kinds of arguments", 10, kinds)
}

// TestConversion_KeepsEveryField converts arguments there and back, and writes and reads them.
func TestConversion_KeepsEveryField(t *testing.T) {
	scheme := newScheme(t)
	eachKind(t, scheme, func(kind string, filled runtime.Object) {
		internal := check.Value(scheme.ConvertToVersion(filled.DeepCopyObject(), config.SchemeGroupVersion))(t)
		check.Equal(t, kind+": the internal type", "config."+kind, reflect.TypeOf(internal).Elem().String())
		again := check.Value(scheme.ConvertToVersion(internal.DeepCopyObject(), v1.SchemeGroupVersion))(t)
		check.Equal(t, kind+" there and back", filled, again)
		read := check.Value(scheme.New(v1.SchemeGroupVersion.WithKind(kind)))(t)
		written := string(check.Value(yaml.Marshal(filled))(t))
		check.OK(t, yaml.UnmarshalStrict([]byte(strings.ReplaceAll(written, "<redacted>", "text")), read))
		check.Equal(t, kind+" written and read", filled, read)
	})
}

func TestDeepCopy_SharesNothing(t *testing.T) {
	original := &config.TargetLoadPackingArgs{}
	fill(t, reflect.ValueOf(original).Elem())
	copied, want := original.DeepCopy(), original.DeepCopy()
	copied.MetricProvider.NodeLabels[0] = "changed"
	copied.MetricProvider.Queries.CPU = "changed"
	copied.DefaultRequests[corev1.ResourceCPU] = resource.MustParse("2")
	check.Equal(t, "the original after changes of a copy", want, original)
}

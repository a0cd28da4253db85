package objectname_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll-scheduler/plimsoll/internal/objectname"
)

func TestParse(t *testing.T) {
	want := types.NamespacedName{Namespace: "ns", Name: "n"}
	if got, err := objectname.Parse("ns/n", "the Service"); err != nil || got != want {
		t.Errorf("%v, error %v; want %v", got, err, want)
	}
	for _, value := range []string{"", "n", "/n", "ns/", "ns/n/x"} {
		want := `"` + value + `"; write NAMESPACE/NAME of the Service`
		if _, err := objectname.Parse(value, "the Service"); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

package text_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

func TestParseName(t *testing.T) {
	want := types.NamespacedName{Namespace: "ns", Name: "n"}
	if got, err := text.ParseName("ns/n", "the Service"); err != nil || got != want {
		t.Errorf("%v, error %v; want %v", got, err, want)
	}
	for _, value := range []string{"", "n", "/n", "ns/", "ns/n/x"} {
		want := `"` + value + `"; write NAMESPACE/NAME of the Service`
		if _, err := text.ParseName(value, "the Service"); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

package v1_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "github.com/plimsoll-scheduler/plimsoll/apis/config/v1"
)

func TestResourceList_UnmarshalJSON(t *testing.T) {
	for _, tt := range []struct {
		text string
		want v1.ResourceList
		err  string
	}{
		{`null`, nil, ""},
		{`{}`, v1.ResourceList{}, ""},
		{`{"cpu": 1, "memory": "1Gi"}`, v1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}, ""},
		{
			`{"cpu": 1, "memory": "9223372E368547758070"}`, nil,
			`"memory": "9223372E368547758070" is no quantity: it must have at most 64 characters, and an exponent of at most 3 digits`,
		},
		{`{"cpu": "one"}`, nil, `"cpu": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'`},
		{`{"cpu": "1", "cpu": "2"}`, nil, `duplicate field "cpu"`},
		{`{"memory": "two", "cpu": "one"}`, nil, `"memory": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'`},
		{`[]`, nil, "must be a mapping of resources to quantities"},
	} {
		got := v1.ResourceList{corev1.ResourceCPU: resource.MustParse("7")} // must not stay
		err := json.Unmarshal([]byte(tt.text), &got)
		if tt.err != "" {
			if err == nil || err.Error() != tt.err {
				t.Errorf("%s: error %v, want %s", tt.text, err, tt.err)
			}
			continue
		}
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v, -want +got:\n%s", tt.text, err, diff)
		}
	}
}

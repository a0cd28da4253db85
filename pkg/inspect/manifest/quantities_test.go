package manifest

import (
	"fmt"
	"strings"
	"testing"
)

// withRequest is a Pod in JSON, whose second container has the given members of requests.
const withRequest = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "i"},
	{"name": "b", "image": "i", "resources": {"requests": {%s}}}]}}`

// Reading each of these would take minutes.
func TestReadFile_LongQuantities(t *testing.T) {
	const request = "spec.containers[1].resources.requests[cpu]: "
	for _, tc := range []struct{ name, content, want string }{
		{"a small exponent", fmt.Sprintf(withRequest, `"cpu": "1e-800000000"`), "document 1: Pod default/p: " + request + `"1e-800000000"`},
		{"a number of JSON", fmt.Sprintf(withRequest, `"cpu": 1e-800000000`), request},
		{"a large exponent", fmt.Sprintf(withRequest, `"cpu": "1e800000000"`), request + `"1e800000000" is no quantity: it must have at most`},
		{"twice", fmt.Sprintf(withRequest, `"cpu": "1e-800000000", "cpu": "1"`), request},
		{"an escaped name", strings.Replace(fmt.Sprintf(withRequest, `"cpu": "1e-800000000"`), "requests", `requ\u0065sts`, 1), request},
		{"blanks before the document", "\n  " + strings.ReplaceAll(fmt.Sprintf(withRequest, `"cpu": "1e-800000000"`), "\t", " "), request},
		{"a template", strings.Replace(deployment, "500m", `"1e-800000000"`, 1),
			"Deployment shop/web: spec.template.spec.containers[0].resources.limits[cpu]: "},
		{"a claim", strings.Replace(statefulSet, "1Gi", `"1e-800000000"`, 1),
			"StatefulSet default/db: spec.volumeClaimTemplates[0].spec.resources.requests[storage]: "},
		{"an ignored kind", "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q}\nspec: {hard: {cpu: '1e-800000000'}}\n",
			"ResourceQuota default/q: spec.hard[cpu]: "},
		{"an item", `{"apiVersion": "v1", "kind": "List", "items": [` + fmt.Sprintf(withRequest, `"cpu": "1e-800000000"`) + `]}`,
			"items[0]: Pod default/p: " + request},
		{"a pointer", strings.Replace(pod, "containers", "volumes: [{name: v, emptyDir: {sizeLimit: '1e-800000000'}}], containers", 1),
			"spec.volumes[0].emptyDir.sizeLimit: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := ReadFile(t.Context(), "-", strings.NewReader(tc.content), "default")
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "exponent of at most 3 digits") {
				t.Errorf("error %v, want %q, and what is allowed", err, tc.want)
			}
		})
	}
}

// A label may look like a long quantity.
func TestReadFile_NoQuantities(t *testing.T) {
	mustRead(t, strings.Replace(pod, "name: p}", "name: p, labels: {commit: '12e4567'}}", 1))
}

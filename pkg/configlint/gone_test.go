package configlint

import (
	"strings"
	"testing"

	_ "k8s.io/apiextensions-apiserver/pkg/features" // which the scheduler links too
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/version"
	_ "k8s.io/kubernetes/pkg/features"
)

// TestGone expects a scheduler of 1.37 to know each gate of the list, and one of 1.38 to know none. Earlier ones know a part.
func TestGone(t *testing.T) {
	gates, known := strings.Fields(gone), 0
	for _, gate := range gates {
		if _, ok := utilfeature.DefaultMutableFeatureGate.GetAll()[featuregate.Feature(gate)]; ok {
			known++
		}
	}
	want := map[string]int{"1.37": len(gates), "1.38": 0}
	if n, ok := want[version.DefaultKubeBinaryVersion]; ok && n != known {
		t.Errorf("%d of %d gates are known to Kubernetes %s, want %d", known, len(gates), version.DefaultKubeBinaryVersion, n)
	}
}

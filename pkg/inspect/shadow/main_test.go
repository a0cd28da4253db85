package shadow

import (
	"testing"

	"go.uber.org/goleak"
)

// Before Kubernetes 1.37, the recorder of metrics sees up to a second late that its framework has ended.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/kubernetes/pkg/scheduler/metrics.(*MetricAsyncRecorder).run"))
}

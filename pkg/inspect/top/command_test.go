package top

import (
	"errors"
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/output"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// Names alone do not find pods of several namespaces. The format that the error names adds the namespaces.
func TestPods_Names(t *testing.T) {
	_, err := check.Execute(t.Context(), Command(nil), "pods", "worker-1", "-o", "name")
	if _, ok := errors.AsType[*cluster.OptionError](err); !ok {
		t.Errorf("%v, want an error of usage", err)
	}
	check.Error(t, err, "-o '"+podNames+"' | xargs -L1 kubectl get")
	pods := &Pods{Pods: []Pod{{Namespace: "shop", Name: "web-0"}, {Namespace: "batch", Name: "job-1"}}}
	var b strings.Builder
	check.OK(t, output.Write(&b, podNames, pods))
	check.Equal(t, "names", "-n shop pod/web-0\n-n batch pod/job-1\n", b.String())
}

package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// TestDependencies keeps the scheduler, CEL and the clients of all APIs out of the program. They were 43 MB of 73.
func TestDependencies(t *testing.T) {
	out := check.Value(exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output())(t)
	for path := range strings.Lines(string(out)) {
		path = strings.TrimSpace(path)
		for _, unwanted := range []string{
			"github.com/google/cel-go", "k8s.io/kube-scheduler/", "k8s.io/kubernetes/", "k8s.io/apiserver/", "k8s.io/client-go/informers",
			"k8s.io/client-go/kubernetes",
		} {
			// The types of a configuration link nothing else.
			if strings.HasPrefix(path, unwanted) && path != "k8s.io/kubernetes/pkg/scheduler/apis/config" {
				t.Errorf("load-watcher links %s", path)
			}
		}
	}
}

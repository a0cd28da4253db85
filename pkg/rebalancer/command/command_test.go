package command

import (
	"errors"
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// TestRebalance_Configuration has a configuration that the command refuses before it asks the cluster.
func TestRebalance_Configuration(t *testing.T) {
	invalid := check.File(t, "rebalancer.yaml", "apiVersion: rebalancer.plimsoll.io/v1\nkind: RebalancerConfiguration\nlinePercent: 120\n")
	for file, want := range map[string]string{
		invalid:  "--rebalancer-config: " + invalid + ": linePercent: Invalid value: 120: must be in [1, 100]",
		"nofile": "--rebalancer-config: stat nofile: no such file or directory",
	} {
		_, err := check.Execute(t.Context(), Command(), "--server", "http://localhost:1", "--rebalancer-config", file)
		if _, ok := errors.AsType[*cluster.OptionError](err); !ok || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want the usage error %s", err, want)
		}
	}
}

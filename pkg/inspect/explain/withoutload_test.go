package explain_test

import (
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/explain"
)

// A plugin that reads no load has no note on load. Its rejection is that of all nodes.
func TestExplain_PluginWithoutLoad(t *testing.T) {
	const profile = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {preFilter: {enabled: [{name: RequestBounds}]}}
`
	s := newScheduler(t, profile, loads{}, node("a", "8"), node("b", "8"))
	for memory, want := range map[string]string{"5Ei": "RequestBounds", "1Gi": ""} {
		r := explained(t, s, explain.Options{Pod: pod("p", "1", memory).Req(resources("1", memory)).Obj()})
		if notes := strings.Join(r.Notes, "\n"); strings.Contains(notes, "RequestBounds") {
			t.Errorf("%s: notes on a plugin that reads no load:\n%s", memory, notes)
		}
		if want == "" {
			if len(r.RuledOut) > 0 || len(r.Candidates) != 2 {
				t.Errorf("%s: ruled out %+v, candidates %+v", memory, r.RuledOut, r.Candidates)
			}
			continue
		}
		if len(r.RuledOut) != 1 || r.RuledOut[0].Plugin != want || r.RuledOut[0].Count != 2 ||
			!strings.Contains(r.RuledOut[0].Reason, "10Ei of memory, more than the scheduler can count") {
			t.Errorf("%s: ruled out %+v, want both nodes by %s", memory, r.RuledOut, want)
		}
	}
}

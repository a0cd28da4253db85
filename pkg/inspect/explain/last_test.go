package explain

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

var decided = time.Date(2026, 11, 23, 20, 0, 0, 0, time.UTC)

// recordOn returns the record of a pod that was placed on the node.
func recordOn(t *testing.T, node, uid string, minutes int) corev1.Event {
	t.Helper()
	content, _, err := (&explain.Record{Profile: "plimsoll", Node: node}).Encode()
	check.OK(t, err)
	e := corev1.Event{EventTime: metav1.NewMicroTime(decided.Add(time.Duration(minutes) * time.Minute))}
	e.ReportingController = explain.RecordReporter
	e.InvolvedObject.UID = st.MakePod().UID(uid).Obj().UID
	e.Annotations = map[string]string{explain.RecordAnnotation: content}
	return e
}

func TestNewestRecord(t *testing.T) {
	broken := recordOn(t, "a", "p", 9)
	broken.Annotations[explain.RecordAnnotation] = "{"
	events := []corev1.Event{
		recordOn(t, "a", "p", 1), recordOn(t, "a", "p", 2), recordOn(t, "b", "p", 3), recordOn(t, "c", "before", 4), broken, {},
		recordOn(t, "a", "p", 12), // of the future: now is 20:10
		recordOn(t, "a", "p", 8),
	}
	events[len(events)-1].ReportingController = "example.com/forger"
	for name, tt := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"of the pod on its node":   {st.MakePod().UID("p").Node("a").Obj(), "a 2"},
		"not of the pod before":    {st.MakePod().UID("other").Node("c").Obj(), ""},
		"of the last one if gone":  {nil, "c 4"},
		"not of a node without it": {st.MakePod().UID("p").Node("d").Obj(), ""},
	} {
		got := ""
		if last := newestRecord(events, tt.pod, decided.Add(10*time.Minute)); last != nil {
			got = last.Record.Node + " " + strings.TrimSuffix(last.Time.Sub(decided).String(), "m0s")
		}
		check.Equal(t, name, tt.want, got)
	}
}

func TestLastDecision_Print(t *testing.T) {
	p := &terminal.Printer{}
	(&LastDecision{Namespace: "shop", Name: "web", Time: decided, AgeSeconds: 3720, Record: &explain.Record{
		Profile: "plimsoll", Node: "a", Scored: 3, DecidedBy: []string{"Load"},
		Nodes: []explain.RecordNode{{Name: "a", Total: 229}, {Name: "c", Total: 222}, {Name: "b", Total: 156}},
		Plugins: []explain.RecordPlugin{
			{Name: "Load", Points: []int64{170, 126, 60}, Terms: []explain.Term{{Name: "cpu measured", Value: 25, Unit: "%"}}},
			{Name: "Requests", Points: []int64{59, 96, 96}},
		},
	}}).Print(p)
	const want = `Pod shop/web, placed on a at 2026-11-23T20:00:00Z (62m ago) by profile plimsoll

PLUGIN          a       c    b
Load            170     126  60
  cpu measured  25.0 %
Requests        59      96   96
TOTAL           229     222  156

a was chosen of 3 scored nodes, with 229 points: c has 222, b has 156. Without the score of Load, another node would win or draw level.
Note: These are the figures in the scheduler's Event. Without --last, explain shows what it would decide now.
`
	check.Equal(t, "text", want, p.String())
}

package explain

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
)

// maxSkew is how far the scheduler's clock may be ahead.
const maxSkew = time.Minute

// maxRecords bounds the Events that are read of one pod, which has one for each time that it was placed.
const maxRecords = 100

// LastDecision is the recorded decision on a pod.
type LastDecision struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Time is when the scheduler decided, AgeSeconds how long ago.
	Time       time.Time       `json:"time"`
	AgeSeconds int64           `json:"ageSeconds"`
	Record     *explain.Record `json:"record"`
}

// Last returns the newest recorded decision on a pod, which may be deleted.
func Last(ctx context.Context, c *cluster.Connection, target Target, now clock.PassiveClock) (Result, error) {
	name := target.Name
	if target.Kind.Kind != "Pod" {
		return nil, cluster.OptionErrorf("--last: %s %s is no pod; write the name of a pod", target.Type(), name)
	}
	pod, err := c.Client.CoreV1().Pods(c.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		pod, err = nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("pod %s: %w", name, err)
	}
	selector := fields.Set{"involvedObject.kind": "Pod", "involvedObject.name": name, "reason": explain.RecordReason}
	list, err := c.Client.CoreV1().Events(c.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: selector.String(), Limit: maxRecords,
	})
	if err != nil {
		err = fmt.Errorf("list events: %w", err)
		if apierrors.IsForbidden(err) {
			err = fmt.Errorf("%w; to grant access: %s", err, c.Grant(ctx, "list", "", "events"))
		}
		return nil, err
	}
	last := newestRecord(list.Items, pod, now.Now())
	if last == nil {
		if _, err := target.get(ctx, c); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("pod %s/%s: no decision is recorded. Enable records of decisions, in the chart by "+
			"decisionRecords.enabled. Their rate is limited, and Events expire after an hour by default. "+
			"Without --last, explain shows where the pod would go now",
			c.Namespace, name)
	}
	last.Namespace, last.Name, last.AgeSeconds = c.Namespace, name, int64(now.Since(last.Time).Seconds())
	return last, nil
}

// newestRecord returns the newest record of the pod; of any pod of its name if it is nil. It passes over Events of other reporters,
// and from the future. Records are not authenticated: whoever may create Events in the namespace can write one.
func newestRecord(events []corev1.Event, pod *corev1.Pod, now time.Time) (last *LastDecision) {
	for i := range events {
		e := &events[i]
		r, err := explain.DecodeRecord(e.Annotations[explain.RecordAnnotation])
		switch {
		case err != nil, e.ReportingController != explain.RecordReporter, e.EventTime.After(now.Add(maxSkew)):
		case last != nil && !e.EventTime.After(last.Time):
		case pod != nil && (pod.UID != e.InvolvedObject.UID || pod.Spec.NodeName != r.Node):
		default:
			last = &LastDecision{Time: e.EventTime.Time, Record: r}
		}
	}
	return last
}

func (r *LastDecision) Fits() bool { return true }

func (r *LastDecision) Print(p *terminal.Printer) {
	p.Printf("Pod %s/%s, placed on %s at %s (%s ago) by profile %s\n\n", r.Namespace, r.Name, r.Record.Node,
		r.Time.UTC().Format(time.RFC3339), duration.HumanDuration(time.Duration(r.AgeSeconds)*time.Second), r.Record.Profile)
	if len(r.Record.Plugins) > 0 {
		r.scores().Print(p, true)
		p.Printf("\n")
	}
	p.Printf("%s\n", r.Record.String())
	if r.Record.Cut {
		p.Printf("Note: Terms, plugins or nodes were left out of the record, to keep it short.\n")
	}
	p.Printf("Note: These are the figures in the scheduler's Event. Without --last, explain shows what it would decide now.\n")
}

func (r *LastDecision) scores() *terminal.Table[[]string] {
	headers, totals := []string{"PLUGIN"}, []string{"TOTAL"}
	for _, n := range r.Record.Nodes {
		headers, totals = append(headers, n.Name), append(totals, strconv.FormatInt(n.Total, 10))
	}
	var rows [][]string
	for _, plugin := range r.Record.Plugins {
		row := []string{plugin.Name}
		for _, points := range plugin.Points {
			row = append(row, strconv.FormatInt(points, 10))
		}
		rows = append(rows, row)
		for _, term := range plugin.Terms {
			row := make([]string, len(headers))
			row[0] = "  " + term.Name
			if len(row) > 1 {
				row[1] = termValue(term.Value, term.Unit)
			}
			rows = append(rows, row)
		}
	}
	return terminal.TextTable(headers, append(rows, totals))
}

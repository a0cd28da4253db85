package doctor

import (
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func TestReport_Print(t *testing.T) {
	advice := Advice{Text: "In file f, write:", YAML: "a:\n  b: 1\n"}
	report := &Report{
		Configuration: "file f", Restart: "kubectl restart",
		Checks: []Result{
			{Group: "source", ID: "source.answers", Status: OK, Message: "it answers"},
			{Group: "nodes", ID: "nodes.measured", Status: Error, Message: "no load", Advice: []Advice{advice}},
			{Group: "nodes", ID: "nodes.same", Status: Warning, Message: "one", Advice: []Advice{{Text: "For both:"}}},
			{Group: "nodes", ID: "nodes.same", Status: Warning, Message: "another", Advice: []Advice{{Text: "For both:"}}},
			{
				Group:   "nodes",
				ID:      "nodes.nearest",
				Status:  Warning,
				Message: "w-1",
				Advice:  []Advice{advice, {Text: "Or look:", Command: "kubectl get nodes"}},
			},
		},
	}
	p := &terminal.Printer{}
	report.Print(p)
	want := `Configuration: file f

SOURCE
✓ it answers

NODES
✗ no load
    In file f, write:
      a:
        b: 1
! one
! another
    For both:
! w-1
    In file f, write:
      a:
        b: 1
    Or look:
      kubectl get nodes

The scheduler reads a changed configuration when it restarts:
      kubectl restart
`
	check.Equal(t, "text", want, p.String())
	colored := &terminal.Printer{Style: terminal.Style{Color: true}}
	report.Print(colored)
	check.Contains(t, colored.String(), "\x1b[31m✗\x1b[m no load")
}

func TestReport_Select(t *testing.T) {
	all := []Result{
		{Group: "source", ID: "source.tls", Status: OK}, {Group: "source", ID: "source.dialect", Status: Warning},
		{Group: "values", ID: "values.zero", Status: OK}, {Group: "scheduler", ID: "scheduler.ready", Status: Skipped},
		{Group: "pods", ID: "pods.waiting", Status: Error},
	}
	for _, tt := range []struct {
		name          string
		selected      []string
		ids           string
		found, failed bool
	}{
		{"all", nil, "source.tls source.dialect values.zero scheduler.ready pods.waiting", true, true},
		{"a group and an id", []string{"source", "values.zero"}, "source.tls source.dialect values.zero", true, false},
		{"a check and a group without a result", []string{"lines.room", "rebalancer", "values.zero", "lines.room"},
			"values.zero lines.room rebalancer", false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &Report{Checks: slices.Clone(all)}
			r.Select(tt.selected)
			var ids []string
			for _, c := range r.Checks {
				ids = append(ids, c.ID)
			}
			if got := strings.Join(ids, " "); got != tt.ids || r.NeedsFix() != tt.found || r.Failed() != tt.failed {
				t.Errorf("%q, found %v, failed %v, want %q, %v, %v", got, r.NeedsFix(), r.Failed(), tt.ids, tt.found, tt.failed)
			}
		})
	}
}

// TestGroups expects each check to be in a group, and each group to have a check.
func TestGroups(t *testing.T) {
	groups := map[string]bool{}
	for _, id := range IDs() {
		group, _, _ := strings.Cut(id, ".")
		groups[group] = true
	}
	for _, group := range Groups() {
		if !groups[group] {
			t.Errorf("no check is in group %s", group)
		}
		delete(groups, group)
	}
	if len(groups) > 0 {
		t.Errorf("the groups %v are not in the order", groups)
	}
}

package doctor

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
)

func TestReport_Print(t *testing.T) {
	advice := Advice{Text: "In file f, write:", YAML: "a:\n  b: 1\n"}
	report := &Report{
		Configuration: "file f", Restart: "kubectl restart",
		Checks: []Check{
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
    As above.
    Or look:
      kubectl get nodes

The scheduler reads a changed configuration when it restarts:
      kubectl restart
`
	if diff := cmp.Diff(want, p.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	colored := &terminal.Printer{Style: terminal.Style{Color: true}}
	report.Print(colored)
	if !strings.Contains(colored.String(), "\x1b[31m✗\x1b[m no load") {
		t.Errorf("on a terminal it is %q", colored)
	}
}

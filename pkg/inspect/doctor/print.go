package doctor

import (
	"slices"
	"strings"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
)

// mark returns the sign of the status.
func (s Status) mark(p *terminal.Printer) terminal.Painted {
	switch s {
	case Warning:
		return p.Painted(terminal.Yellow, "!")
	case Error:
		return p.Painted(terminal.Red, "✗")
	}
	return p.Painted(terminal.Green, "✓")
}

// Print prints a line for each check, and the advice for each that is not OK.
func (r *Report) Print(p *terminal.Printer) {
	if r.Configuration != "" {
		p.Printf("Configuration: %s\n", r.Configuration)
	}
	group, advised, seen := "", false, map[Advice]bool{}
	for i, c := range r.Checks {
		if c.Group != group {
			group = c.Group
			p.Printf("\n%s\n", strings.ToUpper(group))
		}
		p.Printf("%s %s\n", c.Status.mark(p), c.Message)
		if next := i + 1; next < len(r.Checks) && r.Checks[next].ID == c.ID && slices.Equal(r.Checks[next].Advice, c.Advice) {
			continue // the last check of the same advice prints it
		}
		for _, a := range c.Advice {
			if seen[a] && a.YAML+a.Command != "" {
				p.Printf("    As above.\n")
				continue
			}
			seen[a] = true
			p.Printf("    %s\n", a.Text)
			printIndented(p, a.Command)
			printIndented(p, a.YAML)
			advised = advised || a.YAML != "" && c.Group != "rights"
		}
	}
	if advised && r.Restart != "" {
		p.Printf("\nThe scheduler reads a changed configuration when it restarts:\n      %s\n", r.Restart)
	}
}

// printIndented prints the lines of a text to copy, if any.
func printIndented(p *terminal.Printer, text string) {
	for line := range strings.Lines(text) {
		p.Printf("      %s\n", strings.TrimSuffix(line, "\n"))
	}
}

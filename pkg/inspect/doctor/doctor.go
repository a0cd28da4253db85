// Package doctor checks whether a scheduler can place pods by load. Checks are pure functions of facts, which it reads once.
package doctor

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
)

// Status is how a check ended.
type Status string

const (
	// OK means that there is nothing to fix.
	OK Status = "ok"
	// Warning means that the scheduler works worse than it could, or that a fact is missing.
	Warning Status = "warning"
	// Skipped means that the check does not apply, or not yet. There is nothing to fix.
	Skipped Status = "skipped"
	// Error means that the scheduler, or a configured part of it, does not work.
	Error Status = "error"
)

// Result is the outcome of a check. A check can have several.
type Result struct {
	// Group is a part of the cluster, such as "source", and ID the name of the check, such as "source.tls".
	Group string `json:"group"`
	ID    string `json:"id"`

	Status Status `json:"status"`
	// Message is the finding, in one line.
	Message string `json:"message"`
	// Advice has ways to fix a Warning or an Error, or to grant a missing permission. One is enough.
	Advice []Advice `json:"advice,omitempty"`

	// cause is the check, or group, that says why this check did not run; empty if it ran.
	cause string
}

// Advice is one way to fix a finding.
type Advice struct {
	// Text is a sentence.
	Text string `json:"text"`
	// Command, for a shell, or YAML carries it out. Both may be empty.
	Command string `json:"command,omitempty"`
	YAML    string `json:"yaml,omitempty"`
}

// Report is the result of all checks.
type Report struct {
	// Configuration is the origin of the configuration; empty if there is none.
	Configuration string   `json:"configuration,omitempty"`
	Checks        []Result `json:"checks"`
	// Restart is the command that restarts the scheduler with a changed configuration; empty if unknown.
	Restart string `json:"restart,omitempty"`

	// unchecked has a result for each check that did not run. One result of Checks names their groups.
	unchecked []Result
}

// Groups returns the groups of checks, in the order of a report.
func Groups(suppliers ...Supplier) []string {
	return append([]string{"configuration", "source", "nodes", "time", "values", "lines", "permissions", "scheduler", "pods"},
		text.Each(suppliers, func(s Supplier) string { return s.Group })...)
}

// groupOf returns the group of a check.
func groupOf(id string) string {
	group, _, _ := strings.Cut(id, ".")
	return group
}

// IDs returns the names of all checks, sorted.
func IDs(suppliers ...Supplier) (ids []string) {
	ids = append(text.Each(clusterChecks(), Check[*Facts].id), text.Each(sourceChecks(), Check[*sourceFacts].id)...)
	for _, s := range suppliers {
		ids = append(ids, s.IDs...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// ValidateSelection fails if a name is no check and no group.
func ValidateSelection(names []string, suppliers ...Supplier) error {
	groups := Groups(suppliers...)
	for _, name := range names {
		if !slices.Contains(groups, name) && !slices.Contains(IDs(suppliers...), name) {
			return cluster.OptionErrorf("--check: no check or group is called %q; write a group (%s), or an id of -o json", name,
				strings.Join(groups, ", "))
		}
	}
	return nil
}

// Select keeps the checks and groups with these names. A selected check that did not run is a Warning, or an Error if its cause is
// one. A selected check or group without a result is Skipped.
func (r *Report) Select(names []string) {
	if len(names) == 0 {
		return
	}
	r.Checks = append(r.Checks, slices.DeleteFunc(r.unchecked, func(c Result) bool {
		// If only its group is selected, the report has the cause, which is in the same group. So this result is left out.
		return groupOf(c.cause) == c.Group && !slices.Contains(names, c.ID)
	})...)
	hasName := func(c Result, name string) bool { return c.Group == name || c.ID == name }
	r.Checks = slices.DeleteFunc(r.Checks, func(c Result) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return hasName(c, name) })
	})
	for _, name := range names {
		if !slices.ContainsFunc(r.Checks, func(c Result) bool { return hasName(c, name) }) {
			message := name + " has nothing to check here"
			r.Checks = append(r.Checks, Result{Group: groupOf(name), ID: name, Status: Skipped, Message: message})
		}
	}
	sortByGroup(r.Checks)
}

// sortByGroup sorts checks by their groups. Those of suppliers are the last.
func sortByGroup(checks []Result) {
	order := Groups()
	position := func(c Result) int { return slices.Index(append(order, c.Group), c.Group) }
	slices.SortStableFunc(checks, func(a, b Result) int {
		return cmp.Or(position(a)-position(b), strings.Compare(a.Group, b.Group))
	})
}

// NeedsFix reports whether a check found something to fix.
func (r *Report) NeedsFix() bool { return slices.ContainsFunc(r.Checks, Result.needsFix) }

// Failed reports whether a check found that something does not work.
func (r *Report) Failed() bool {
	return slices.ContainsFunc(r.Checks, func(c Result) bool { return c.Status == Error })
}

func (c Result) needsFix() bool { return c.Status == Warning || c.Status == Error }

// Options say what is checked.
type Options struct {
	Configuration cluster.ConfigurationOptions
	Source        cluster.SourceOptions
	// Lend may be nil. Where it does not lend a simulation, a new one is made, and load is read anew.
	Lend cluster.Lender
	// Suppliers supply the checks of other packages.
	Suppliers []Supplier
}

// Run checks the cluster. It fails if the API server does not answer, and with a *live.OptionError if the options are wrong.
// Any other failure is a check that is not OK.
func Run(ctx context.Context, conn *cluster.Connection, o Options) (*Report, error) {
	f, err := gather(ctx, conn, o)
	if err != nil {
		return nil, err
	}
	return reportOn(f), nil
}

// reportOn runs all checks.
func reportOn(f *Facts) *Report {
	r := &Report{}
	if f.Configuration != nil {
		r.Configuration = text.Escape(f.Configuration.Origin)
		r.Restart = text.Escape(f.Configuration.Workload.RestartCommand().For(f.chosen))
	}
	runAll(r, append(clusterChecks(), f.supplied...), f, "")
	for _, s := range f.sources {
		prefix := ""
		if len(f.sources) > 1 {
			prefix = s.Label + ": "
		}
		runAll(r, sourceChecks(), s, prefix)
	}
	sortByGroup(r.Checks)
	sortByGroup(r.unchecked)
	for i := range r.unchecked {
		c := &r.unchecked[i]
		failed := func(of Result) bool { return of.Status == Error && (of.ID == c.cause || of.Group == c.cause) }
		c.Status = map[bool]Status{true: Error, false: Warning}[slices.ContainsFunc(r.Checks, failed)]
	}
	r.Checks = append(r.Checks, r.summarizeUnchecked()...)
	return r
}

// summarizeUnchecked names the groups with checks that did not run, by reason, in one result.
func (r *Report) summarizeUnchecked() []Result {
	groups := map[string][]string{}
	for _, c := range r.unchecked {
		if groupOf(c.cause) != c.Group && !slices.Contains(groups[c.Message], c.Group) {
			groups[c.Message] = append(groups[c.Message], c.Group)
		}
	}
	if len(groups) == 0 {
		return nil
	}
	all := text.Each(sortedKeys(groups), func(reason string) string { return reason + ": " + strings.Join(groups[reason], ", ") })
	return []Result{{Group: "unchecked", ID: "unchecked", Status: Skipped, Message: strings.Join(all, "; ")}}
}

// runAll adds the results of the checks.
func runAll[F any](r *Report, checks []Check[F], facts F, prefix string) {
	for _, c := range checks {
		list, results, missing := &r.Checks, []Result(nil), c.missing(facts)
		switch {
		case missing == nil:
			results = c.Run(facts)
		case missing.reason != "":
			list, results = &r.unchecked, Warn(Advise("See what %s finds.", missing.cause), "not checked, because %s", missing.reason)
			results[0].cause = missing.cause
		}
		for _, result := range results {
			result.Group, result.ID, result.Message = groupOf(c.ID), c.ID, text.Escape(prefix)+result.Message
			*list = append(*list, result)
		}
	}
}

// Print prints a line for each check, and the advice for each that is not OK.
func (r *Report) Print(p *terminal.Printer) {
	if r.Configuration != "" {
		p.Printf("Configuration: %s\n", r.Configuration)
	}
	marks := map[Status]terminal.Painted{
		OK: p.Painted(terminal.Green, "✓"), Warning: p.Painted(terminal.Yellow, "!"), Error: p.Painted(terminal.Red, "✗"),
		Skipped: p.Painted(0, "-"),
	}
	group, changesConfiguration := "", false
	for i, c := range r.Checks {
		if c.Group != group {
			group = c.Group
			p.Printf("\n%s\n", strings.ToUpper(group))
		}
		p.Printf("%s %s\n", marks[c.Status], c.Message)
		if next := i + 1; next < len(r.Checks) && r.Checks[next].ID == c.ID && slices.Equal(r.Checks[next].Advice, c.Advice) {
			continue // the last check of the same advice prints it
		}
		for _, a := range c.Advice {
			p.Printf("    %s\n", a.Text)
			for line := range strings.Lines(strings.TrimPrefix(a.Command+"\n"+a.YAML, "\n")) {
				p.Printf("      %s\n", strings.TrimSuffix(line, "\n"))
			}
			changesConfiguration = changesConfiguration || a.YAML != "" && c.Group != "permissions"
		}
	}
	if changesConfiguration && r.Restart != "" {
		p.Printf("\nThe scheduler reads a changed configuration when it restarts:\n      %s\n", r.Restart)
	}
}

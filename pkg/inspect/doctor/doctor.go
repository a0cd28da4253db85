// Package doctor checks whether a cluster's scheduler can place pods by load. Facts are gathered once; checks are pure functions
// of them.
package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
)

// Status says how a check ended.
type Status string

const (
	// OK means that nothing was found.
	OK Status = "ok"
	// Warning means that the scheduler works, but not as well as it could, or that something could not be checked.
	Warning Status = "warning"
	// Error means that the scheduler, or a part of what is configured, does not work.
	Error Status = "error"
)

// Check is the result of one check.
type Check struct {
	// Group is a part of the cluster, such as "source", and ID the name of the check, such as "source.tls".
	Group string `json:"group"`
	ID    string `json:"id"`

	Status Status `json:"status"`
	// Message says in one line what was found.
	Message string `json:"message"`
	// Advice is what to do, unless Status is OK. One is enough.
	Advice []Advice `json:"advice,omitempty"`
}

// Advice is something to do.
type Advice struct {
	// Text says in a sentence what to do.
	Text string `json:"text"`
	// Command, for a shell, or YAML does it. Both may be empty.
	Command string `json:"command,omitempty"`
	YAML    string `json:"yaml,omitempty"`
}

// Report is the result of all checks.
type Report struct {
	// Configuration is where the configuration comes from; empty if there is none.
	Configuration string  `json:"configuration,omitempty"`
	Checks        []Check `json:"checks"`
	// Restart is the command that makes the scheduler read a changed configuration; empty if that is not known.
	Restart string `json:"restart,omitempty"`
}

// Found reports whether a check is not OK.
func (r *Report) Found() bool {
	return slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Status != OK })
}

// Options say what is checked.
type Options struct {
	Configuration live.ConfigurationOptions
	Source        live.SourceOptions
}

// Run checks the cluster. It fails if the API server does not answer, and with a *live.OptionError if the options are wrong.
// Any other missing fact is a check that is not OK.
func Run(ctx context.Context, conn *live.Connection, o Options) (*Report, error) {
	f, err := gather(ctx, conn, o)
	if err != nil {
		return nil, err
	}
	return reportOn(f), nil
}

// check is a row of the table of checks: run is a pure function of the facts F.
type check[F any] struct {
	id    string
	needs []need[F]
	run   func(F) []Check
}

// need returns nil if the facts have what a check needs.
type need[F any] func(F) *gap

// gap is why a fact could not be gathered, and the group of the check that says more.
type gap struct{ reason, group string }

// clusterChecks are the checks that are made once.
func clusterChecks() []check[*facts] {
	type needs = []need[*facts]
	file, configured := needs{(*facts).needFile}, needs{(*facts).needConfiguration}
	listed, opened := needs{(*facts).needObjects}, needs{(*facts).needCluster}
	both := slices.Concat(configured, listed)
	return []check[*facts]{
		{"configuration.found", nil, (*facts).checkFound},
		{"configuration.decodes", file, (*facts).checkDecodes},
		{"configuration.effect", file, findingsOf("configuration.effect")},
		{"configuration.weights", file, findingsOf("configuration.weights")},
		{"configuration.profiles", file, findingsOf("configuration.profiles")},
		{"configuration.profiles", configured, (*facts).checkSharedProfile},
		{"configuration.runs", both, (*facts).checkRuns},
		{"source.configured", opened, (*facts).checkConfigured},
		{"source.statistics", opened, (*facts).checkStatistics},
		{"nodes.modelled", both, (*facts).checkPowerModels},
		{"rights.list", nil, (*facts).checkLists},
		{"rights.scheduler", configured, (*facts).checkPermissions},
		{"scheduler.ready", slices.Concat(file, listed), (*facts).checkReady},
		{"scheduler.leader", configured, (*facts).checkLeader},
		{"scheduler.metrics", file, (*facts).checkMetrics},
		{"scheduler.load", nil, (*facts).checkLoadStates},
		{"scheduler.refreshes", nil, (*facts).checkRefreshes},
		{"scheduler.fallbacks", nil, (*facts).checkFallbacks},
		{"scheduler.version", file, (*facts).checkVersion},
		{"scheduler.command", file, (*facts).checkCommand},
		{"pods.waiting", listed, (*facts).checkWaiting},
	}
}

// sourceChecks are the checks of each source of load.
func sourceChecks() []check[*sourceFacts] {
	opened := []need[*sourceFacts]{(*sourceFacts).needCluster}
	answered := slices.Concat(opened, []need[*sourceFacts]{(*sourceFacts).needAnswer})
	measured := slices.Concat(answered, []need[*sourceFacts]{(*sourceFacts).needLoad})
	sampled := slices.Concat(answered, []need[*sourceFacts]{(*sourceFacts).needExamination})
	return []check[*sourceFacts]{
		{stageResolves, opened, reaches(stageResolves)},
		{stageConnects, opened, reaches(stageConnects)},
		{stageTLS, opened, reaches(stageTLS)},
		{stageAuthorized, opened, reaches(stageAuthorized)},
		{stageAnswers, opened, reaches(stageAnswers)},
		{"source.duration", answered, (*sourceFacts).checkDuration},
		{"source.examined", answered, ofPrometheus((*sourceFacts).checkExamined)},
		{"source.dialect", answered, ofPrometheus(ofLoad((*sourceFacts).checkDialect))},
		{"source.queries", answered, ofPrometheus((*sourceFacts).checkQueries)},
		{"source.metrics", answered, ofPrometheus((*sourceFacts).checkNodeMetrics)},
		{"nodes.measured", answered, ofLoad((*sourceFacts).checkMeasured)},
		{"nodes.nearest", answered, ofPrometheus(ofLoad((*sourceFacts).checkUnnamed))},
		{"nodes.unmatched", answered, ofPrometheus(ofLoad((*sourceFacts).checkUnmatched))},
		{"time.clock", answered, ofPrometheus((*sourceFacts).checkClock)},
		{"time.scrape", sampled, ofPrometheus(ofLoad((*sourceFacts).checkScrape))},
		{"time.coverage", sampled, ofPrometheus(ofLoad((*sourceFacts).checkCoverage))},
		{"time.age", measured, (*sourceFacts).checkAge},
		{"values.zero", measured, (*sourceFacts).checkZero},
		{"values.capacity", answered, (*sourceFacts).checkCapacity},
		{"values.deviation", measured, (*sourceFacts).checkDeviation},
	}
}

// ofPrometheus makes a check of a Prometheus only, and ofLoad one of a source that plugins read load from.
func ofPrometheus(run func(*sourceFacts) []Check) func(*sourceFacts) []Check {
	return func(s *sourceFacts) []Check {
		if s.diagnosis == nil {
			return nil
		}
		return run(s)
	}
}

func ofLoad(run func(*sourceFacts) []Check) func(*sourceFacts) []Check {
	return func(s *sourceFacts) []Check {
		if len(s.windows) == 0 {
			return nil
		}
		return run(s)
	}
}

// reportOn makes all checks.
func reportOn(f *facts) *Report {
	r := &Report{}
	if f.configuration != nil {
		r.Configuration, r.Restart = f.configuration.Origin, f.configuration.Workload.RestartCommand()
	}
	runAll(r, clusterChecks(), f, "")
	for _, s := range f.sources {
		prefix := ""
		if len(f.sources) > 1 {
			prefix = s.Label + ": "
		}
		runAll(r, sourceChecks(), s, prefix)
	}
	order := []string{"configuration", "source", "nodes", "time", "values", "rights", "scheduler", "pods"}
	slices.SortStableFunc(r.Checks, func(a, b Check) int { return slices.Index(order, a.Group) - slices.Index(order, b.Group) })
	return r
}

// runAll adds the results of the checks to the report.
func runAll[F any](r *Report, checks []check[F], facts F, prefix string) {
	for _, c := range checks {
		if missing := c.missing(facts); missing != nil {
			r.skip(c.id, prefix, missing)
			continue
		}
		for _, result := range c.run(facts) {
			result.ID, result.Message = c.id, prefix+result.Message
			r.add(result)
		}
	}
}

func (c *check[F]) missing(facts F) *gap {
	for _, need := range c.needs {
		if missing := need(facts); missing != nil {
			return missing
		}
	}
	return nil
}

// skip says once for each group why it was not checked, unless the group has something to fix.
func (r *Report) skip(id, prefix string, missing *gap) {
	group := groupOf(id)
	if missing.group == group || slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Group == group && c.Status != OK }) {
		return
	}
	r.add(Check{ID: id, Status: Warning, Message: prefix + "not checked, because " + missing.reason, Advice: seeChecks(missing.group)})
}

// add adds a check, and escapes characters that could control a terminal.
func (r *Report) add(c Check) {
	c.Group = groupOf(c.ID)
	c.Message = text.Escape(c.Message)
	for i := range c.Advice {
		a := &c.Advice[i]
		a.Text, a.Command, a.YAML = text.Escape(a.Text), escapeLines(a.Command), escapeLines(a.YAML)
	}
	r.Checks = append(r.Checks, c)
}

// groupOf returns the part of the ID before the dot.
func groupOf(id string) string {
	group, _, _ := strings.Cut(id, ".")
	return group
}

// escapeLines escapes a text of several lines.
func escapeLines(lines string) string {
	var escaped []string
	for line := range strings.SplitSeq(lines, "\n") {
		escaped = append(escaped, text.Escape(line))
	}
	return strings.Join(escaped, "\n")
}

// ok, warn and fail return one result.
func ok(format string, args ...any) []Check {
	return []Check{{Status: OK, Message: fmt.Sprintf(format, args...)}}
}

func warn(advice []Advice, format string, args ...any) []Check {
	return []Check{{Status: Warning, Message: fmt.Sprintf(format, args...), Advice: advice}}
}

func fail(advice []Advice, format string, args ...any) []Check {
	return []Check{{Status: Error, Message: fmt.Sprintf(format, args...), Advice: advice}}
}

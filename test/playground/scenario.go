package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// scenario is one demonstration of the playground. It starts on a cluster without nodes and pods, and may leave some.
type scenario struct {
	name string
	// prepare, if it is not nil, is called before the first scenario runs. What it creates must have the label cluster.Kept.
	prepare func(ctx context.Context, p *playground) error
	run     func(ctx context.Context, p *playground) (result, error)
}

// result is the outcome of a scenario.
type result interface {
	// write prints it, in at most 100 columns and 35 lines.
	write(page page)
	// check returns an error that names what is not as it must be.
	check() error
}

// measuringError is how far a measured utilization may be off in a scenario whose pods use next to nothing: the share of an
// 8-core node that one pod of 100m has. Scenarios whose pods use more allow the share of one of those. The mean over a few
// seconds is exact on an idle machine; on a busy one Prometheus gets its samples late.
const measuringError = 0.0125

// scenarios returns all scenarios, in the order in which they run.
func scenarios() []scenario {
	return []scenario{
		{name: "the worked example", run: runWorkedExample},
		{name: "requests lie", run: runRequestsLie},
		{name: "burst", run: runBurst},
		{name: "outage", run: runOutage},
		{name: "latency", run: runLatency},
		{name: "peaks", prepare: preparePeaks, run: runPeaks},
		{name: "overload", run: runOverload},
	}
}

// finding is the result of a scenario.
type finding struct {
	scenario string
	result   result
}

func runScenarios(ctx context.Context, p *playground, scenarios []scenario) ([]finding, error) {
	for _, s := range scenarios {
		if s.prepare == nil {
			continue
		}
		if err := s.prepare(ctx, p); err != nil {
			return nil, fmt.Errorf("preparing %s: %w", s.name, err)
		}
	}
	p.prepared = time.Now()
	var findings []finding
	for i, s := range scenarios {
		if i > 0 {
			if err := p.Clear(ctx); err != nil {
				return nil, err
			}
		}
		r, err := s.run(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		findings = append(findings, finding{s.name, r})
	}
	return findings, nil
}

// errWrong ends the playground if the check of a scenario failed.
var errWrong = errors.New("a scenario did not end as it must; see WRONG above")

// show writes the summary of all scenarios. It returns errWrong if the check of one failed.
func show(page page, findings []finding) error {
	var wrong []string
	for _, f := range findings {
		page.line("")
		page.line("%s", page.paint.bold(strings.ToUpper(f.scenario)))
		f.result.write(page)
		if err := f.result.check(); err != nil {
			wrong = append(wrong, f.scenario+": "+strings.ReplaceAll(err.Error(), "\n", "; "))
		}
	}
	page.line("")
	if len(wrong) == 0 {
		page.line("All %d scenarios ended as they must.", len(findings))
		return nil
	}
	for _, w := range wrong {
		page.line("%s %s", page.paint.red("WRONG"), w)
	}
	return errWrong
}

// page writes the summary, line by line.
type page struct {
	out   io.Writer
	paint paint
}

func (p page) line(format string, args ...any) {
	_, _ = fmt.Fprintln(p.out, strings.TrimRight(fmt.Sprintf(format, args...), " "))
}

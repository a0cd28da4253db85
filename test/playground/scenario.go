package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// scenario is one thing that the playground shows. It is given a cluster without nodes and pods, and may leave some.
type scenario struct {
	name string
	run  func(ctx context.Context, p *playground) (result, error)
}

// result is what a scenario has found out.
type result interface {
	// write shows it, in no more than 98 columns.
	write(page page)
	// check returns an error that says which placement is not what it must be.
	check() error
}

// scenarios returns what is shown, in this order.
func scenarios() []scenario {
	return []scenario{
		{name: "the worked example", run: runWorkedExample},
		{name: "requests lie", run: runRequestsLie},
		{name: "burst", run: runBurst},
		{name: "outage", run: runOutage},
		{name: "latency", run: runLatency},
		{name: "overload", run: runOverload},
	}
}

// finding is the result of a scenario.
type finding struct {
	scenario string
	result   result
}

func runScenarios(ctx context.Context, p *playground, scenarios []scenario) ([]finding, error) {
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

// errMisplaced is what the playground ends with if a placement is not what it must be.
var errMisplaced = errors.New("not everything is where it must be")

// show writes the summary. It returns errMisplaced if it had to write down anything that is wrong.
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
		page.line("All pods are where they must be.")
		return nil
	}
	for _, w := range wrong {
		page.line("%s %s", page.paint.red("WRONG"), w)
	}
	return errMisplaced
}

// page is what results are written on.
type page struct {
	out   io.Writer
	paint paint
}

func (p page) line(format string, args ...any) {
	_, _ = fmt.Fprintln(p.out, strings.TrimRight(fmt.Sprintf(format, args...), " "))
}

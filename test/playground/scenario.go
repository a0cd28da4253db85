package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
	"github.com/plimsoll-scheduler/plimsoll/test/playground/bar"
)

// scenario is one demonstration of the playground. It starts on a cluster without nodes and pods, and may leave some.
type scenario struct {
	name string
	// run ends by must where it cannot go on.
	run func(ctx context.Context, p *playground) result
	// programs are needed by this scenario alone.
	programs []string
}

// result is the outcome of a scenario.
type result interface {
	// write prints it, in at most 100 columns and 35 lines.
	write(page page)
	// check returns an error that names what is not as it must be.
	check() error
}

// measuringError bounds the error of a measured utilization in a scenario whose pods use next to nothing. It is the share of an
// 8-core node that one pod of 100m has. Scenarios whose pods use more allow the share of one of those. The mean over a few seconds
// is exact on an idle machine. On a busy one Prometheus gets its samples late.
const measuringError = 0.0125

// chosen returns the scenarios that the variable SCENARIOS selects, in order.
func chosen(value string) ([]scenario, error) {
	scenarios := []scenario{{name: "the worked example", run: runWorkedExample}, {name: contestName, run: runContest}}
	switch value {
	case "":
	case "all":
		scenarios = append(scenarios, scenario{name: "moving", run: runMoving, programs: []string{"rebalancer"}})
	default:
		return nil, fmt.Errorf("SCENARIOS is %q, but must be all, or unset", value)
	}
	return append(scenarios, scenario{name: "look around", run: runLookAround}), nil
}

// failure is the error that ends a scenario: must panics with it, and attempt recovers it.
type failure struct{ error }

func must(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func got[T any](value T, err error) T {
	must(err)
	return value
}

func attempt(do func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			failed, ok := r.(failure)
			if !ok {
				panic(r)
			}
			err = failed.error
		}
	}()
	do()
	return nil
}

// errWrong ends the playground if the check of a scenario failed.
var errWrong = errors.New("a scenario did not end as it must; see WRONG above")

// show writes the result of a scenario, and returns what is not as it must be.
func show(page page, scenario string, r result) (wrong []string) {
	page.line("\n%s", page.Paint(terminal.Bold, strings.ToUpper(scenario)))
	r.write(page)
	if example, ok := r.(workedExample); ok {
		page.output("SEE WHY: kubectl plimsoll explain example", example.why)
	}
	page.line("")
	if err := r.check(); err != nil {
		wrong = append(wrong, scenario+": "+strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return wrong
}

// verdict returns errWrong if a scenario did not end as it must.
func verdict(page page, scenarios int, wrong []string) error {
	if len(wrong) == 0 {
		page.line("All %d scenarios ended as they must.", scenarios)
		return nil
	}
	for _, w := range wrong {
		page.line("%s %s", page.Paint(terminal.Red, "WRONG"), w)
	}
	return errWrong
}

type page struct {
	terminal.Style
	out io.Writer
}

// barCells is the width of a bar. The whole width is the capacity of a node.
const barCells = 30

// bar draws a bar of barCells.
func (p page) bar(b bar.Bar) string {
	b.Cells, b.Colored = barCells, p.Color
	return b.String()
}

func (p page) line(format string, args ...any) {
	_, _ = fmt.Fprintln(p.out, strings.TrimRight(fmt.Sprintf(format, args...), " "))
}

func (p *playground) sleep(ctx context.Context, pause time.Duration) {
	select {
	case <-ctx.Done():
		must(context.Cause(ctx))
	case <-time.After(pause):
	}
}

// output writes the output of a command.
func (p page) output(command, text string) {
	p.line("\n%s\n\n%s", p.Paint(terminal.Bold, command), strings.TrimRight(text, "\n"))
}

// createNode creates a node of 8 cores and 32Gi with a load.
func (p *playground) createNode(ctx context.Context, name string, load cluster.Load, labels map[string]string) {
	must(p.CreateNodes(ctx, cluster.Node{Name: name, CPU: "8", Memory: "32Gi", Labels: labels}))
	must(p.SetLoad(ctx, name, load))
}

// cpuUsage returns the usage of an 8-core node at a utilization.
func cpuUsage(utilization float64) cluster.Usage {
	return cluster.Usage{CPU: fmt.Sprintf("%.0fm", 8000*utilization), Memory: "4Gi"}
}

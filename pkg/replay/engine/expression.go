package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"gonum.org/v1/gonum/stat"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
)

// maxRange is the longest range in an expression.
const maxRange = time.Hour

// expression returns the value of a PromQL expression for a node, from the ticks before end.
type expression func(m *measured, node, end int) float64

// series are the simulated series of nodes: means over a time.
var series = map[string]struct {
	resource load.Resource
	over     time.Duration
}{
	"instance:node_cpu_utilisation:rate1m":   {load.CPU, time.Minute},
	"instance:node_cpu_utilisation:rate5m":   {load.CPU, 5 * time.Minute},
	"instance:node_memory_utilisation:ratio": {load.Memory, input.Tick},
}

// overTime are the supported functions. They may reorder values.
var overTime = map[string]func(values []float64, parameter float64) float64{
	"avg_over_time":    func(v []float64, _ float64) float64 { return stat.Mean(v, nil) },
	"max_over_time":    func(v []float64, _ float64) float64 { return slices.Max(v) },
	"min_over_time":    func(v []float64, _ float64) float64 { return slices.Min(v) },
	"stddev_over_time": func(v []float64, _ float64) float64 { return stat.PopStdDev(v, nil) },
	"quantile_over_time": func(v []float64, fraction float64) float64 {
		slices.Sort(v)
		return quantileOfSorted(v, fraction)
	},
}

// supported describes the expressions of a replay.
const supported = "a replay has instance:node_cpu_utilisation:rate1m, instance:node_cpu_utilisation:rate5m and " +
	"instance:node_memory_utilisation:ratio, without label matchers; avg, max, min, stddev and quantile_over_time of them over " +
	"up to 1h"

// compile fails for queries without data in a replay.
func compile(query string) (expression, error) {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		return nil, fmt.Errorf("query %q: %w", query, err)
	}
	e, err := compileNode(parsed)
	if err != nil {
		return nil, fmt.Errorf("query %q: no data of %w; %s", query, err, supported)
	}
	return e, nil
}

func compileNode(n parser.Expr) (expression, error) {
	switch n := n.(type) {
	case *parser.ParenExpr:
		return compileNode(n.Expr)
	case *parser.VectorSelector:
		return compileSelector(n)
	case *parser.Call:
		return compileCall(n)
	}
	return nil, errors.New(n.String())
}

func compileSelector(n *parser.VectorSelector) (expression, error) {
	s, ok := series[n.Name]
	if !ok || len(n.LabelMatchers) > 1 || n.OriginalOffset != 0 || n.Timestamp != nil || n.StartOrEnd != 0 {
		return nil, errors.New(n.String())
	}
	return func(m *measured, node, end int) float64 {
		mean, _ := m.mean(node, s.resource, m.window(end, s.over), end)
		return mean
	}, nil
}

func compileCall(n *parser.Call) (expression, error) {
	function, ok := overTime[n.Func.Name]
	if !ok {
		return nil, errors.New(n.String())
	}
	parameter := 0.0
	if number, ok := n.Args[0].(*parser.NumberLiteral); ok {
		parameter = number.Val
	}
	matrix, ok := n.Args[len(n.Args)-1].(*parser.MatrixSelector)
	if !ok || matrix.Range > maxRange || parameter < 0 || parameter > 1 {
		return nil, errors.New(n.String())
	}
	selector, err := compileNode(matrix.VectorSelector)
	if err != nil {
		return nil, err
	}
	var values []float64
	return func(m *measured, node, end int) float64 {
		values = values[:0]
		for tick := m.window(end, matrix.Range); tick < end; tick++ {
			values = append(values, selector(m, node, tick+1))
		}
		return function(values, parameter)
	}, nil
}

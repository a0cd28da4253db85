package finding

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
)

// CheckLoadQuery returns the findings of a query for load, if Prometheus answers it. An empty query has none.
func CheckLoadQuery(field, query string, provider *config.MetricProviderSpec) []Finding {
	if query == "" || provider.Type != config.Prometheus {
		return nil
	}
	// As wide as the variable, so that columns do not move.
	window := fmt.Sprintf("%-*s", len("$window"), "5m")
	promQL := strings.ReplaceAll(query, "$window", window)
	if findings := CheckQuery(field, query, promQL); len(findings) > 0 || !complementsRate(promQL) {
		return findings
	}
	return []Finding{{
		Code: QueryOfAbsence, Field: field, Details: []any{"query", query},
		Advice: "divide used seconds by all seconds, such as " +
			`sum by (node) (rate(node_cpu_seconds_total{mode!~"idle|iowait"}[$window]))` +
			" / sum by (node) (rate(node_cpu_seconds_total[$window]))",
	}}
}

// complementsRate reports whether a number minus a rate is a part of the valid query. A rate over a rate loses both alike.
func complementsRate(promQL string) (complements bool) {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(promQL)
	if err != nil {
		return false
	}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if difference, ok := node.(*parser.BinaryExpr); ok && difference.Op == parser.SUB {
			if _, ok := difference.LHS.(*parser.NumberLiteral); ok {
				complements = complements || hasRate(difference.RHS)
			}
		}
		return nil
	})
	return complements
}

func hasRate(node parser.Node) bool {
	switch n := node.(type) {
	case *parser.Call:
		if slices.Contains([]string{"rate", "irate", "increase"}, n.Func.Name) {
			return true
		}
	case *parser.BinaryExpr:
		if n.Op == parser.DIV && hasRate(n.LHS) && hasRate(n.RHS) {
			return false
		}
	}
	for child := range parser.ChildrenIter(node) {
		if hasRate(child) {
			return true
		}
	}
	return false
}

// CheckQuery returns a finding if Prometheus' parser rejects promQL, the query after substitution. The query may be valid in
// another dialect, such as VictoriaMetrics' MetricsQL: only the server can tell.
func CheckQuery(field, query, promQL string) []Finding {
	_, err := parser.NewParser(parser.Options{}).ParseExpr(promQL)
	if err == nil {
		return nil
	}
	details := []any{"query", query}
	if all, ok := errors.AsType[parser.ParseErrors](err); ok && len(all) > 0 {
		first := all[0]
		line, column, _ := strings.Cut(first.PositionRange.StartPosInput(promQL, first.LineOffset), ":")
		details = append(details, "queryLine", line, "queryColumn", column)
		err = first.Err
	}
	return []Finding{{Code: QueryInvalid, Field: field, Details: append(details, "problem", err.Error())}}
}

package promql

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// customExpression returns the queries for the operator's expression. The deviation is that of the expression over short windows.
func customExpression(custom string, s sampling) expression {
	return expression{
		mean: withWindow(custom, s.window),
		// The line break ends a trailing comment of the expression.
		stdDev: fmt.Sprintf("stddev_over_time((%s\n)[%s:%s])", withWindow(custom, s.rate), s.window, s.step),
	}
}

// customQuantile is customExpression for a quantile. A plain selector, such as the name of a recorded rule, needs no subquery.
func customQuantile(custom string, s sampling, fraction float64) expression {
	now, q := withWindow(custom, s.rate), format(fraction)
	// The line breaks end a trailing comment of the expression.
	over := fmt.Sprintf("(%s\n)[%s:%s]", now, s.window, s.step)
	if selector := plainSelector(now); selector != nil {
		over = fmt.Sprintf("%s[%s]", selector, s.window)
	}
	return expression{
		mean: fmt.Sprintf("quantile_over_time(%s, %s) and (%s\n)", q, over, now), span: time.Duration(s.rate),
	}
}

func withWindow(custom string, window model.Duration) string {
	return strings.ReplaceAll(custom, "$window", window.String())
}

// parse returns nil for another dialect of PromQL, or for a mistake, which the mean's query reports.
func parse(promql string) parser.Expr {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(promql)
	if err != nil {
		return nil
	}
	return parsed
}

// plainSelector returns an expression that is a selector without offset and @; nil for others.
func plainSelector(promql string) *parser.VectorSelector {
	selector, ok := parse(promql).(*parser.VectorSelector)
	if !ok || selector.OriginalOffset != 0 || selector.Timestamp != nil || selector.StartOrEnd != 0 {
		return nil
	}
	return selector
}

// customNewestSample is newestSample for the operator's expression.
// It returns "" unless the expression is a plain selector, such as the name of a recorded rule, without offset and @.
func customNewestSample(custom string, window model.Duration) string {
	custom = withWindow(custom, window)
	if plainSelector(custom) == nil {
		return ""
	}
	return fmt.Sprintf("timestamp(%s\n)", custom)
}

// maxUnixSeconds keeps a time within what UnixMilli and JSON can hold; it is in the year 5138.
const maxUnixSeconds = 1e11

// Time returns the time of a number of seconds since 1970, to the millisecond, and whether it is valid.
func Time(seconds float64) (time.Time, bool) {
	if !(seconds > 0 && seconds < maxUnixSeconds) {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(math.Round(seconds * 1000))), true
}

// Selector are label matchers. The zero value matches all series.
type Selector []*labels.Matcher

// ParseSelector returns the matchers of a valid selector in braces; none if it is empty.
func ParseSelector(text string) Selector {
	if selector, ok := parse(text).(*parser.VectorSelector); ok {
		return selector.LabelMatchers
	}
	return nil
}

func (s Selector) restrict(e expression) expression {
	e.mean, e.stdDev = s.add(e.mean), s.add(e.stdDev)
	return e
}

func (s Selector) add(query string) string {
	if len(s) == 0 || query == "" {
		return query
	}
	parsed := parse(query)
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			selector.LabelMatchers = append(selector.LabelMatchers, s...)
		}
		return nil
	})
	return parsed.String()
}

package promql

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

// customExpression returns the queries for the operator's expression. The deviation is that of the expression over short windows.
func customExpression(custom string, s sampling) expression {
	mean := withWindow(custom, s.window)
	return expression{
		mean: mean,
		// The line break ends a trailing comment of the expression.
		stdDev: fmt.Sprintf("stddev_over_time((%s\n)[%s:%s])", withWindow(custom, s.rate), s.window, s.step),
		reads:  readsOf(mean),
	}
}

// customQuantile is customExpression for a quantile. A plain selector, such as the name of a recorded rule, needs no subquery.
func customQuantile(custom string, s sampling, fraction float64) expression {
	now, q := withWindow(custom, s.rate), format(fraction)
	// The line breaks end a trailing comment of the expression.
	over := fmt.Sprintf("(%s\n)[%s:%s]", now, s.window, s.step)
	selector, ok := parse(now).(*parser.VectorSelector)
	if ok && selector.OriginalOffset == 0 && selector.Timestamp == nil && selector.StartOrEnd == 0 {
		over = fmt.Sprintf("%s[%s]", selector, s.window)
	}
	return expression{
		mean:  fmt.Sprintf("quantile_over_time(%s, %s) and (%s\n)", q, over, now),
		reads: readsOf(now),
		span:  time.Duration(s.rate),
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

// customNewestSample is newestSample for the operator's expression.
// It returns "" unless the expression is a plain selector, such as the name of a recorded rule, without offset and @.
func customNewestSample(custom string, window model.Duration) string {
	custom = withWindow(custom, window)
	if _, ok := parse(custom).(*parser.VectorSelector); !ok || readsOf(custom).Past() {
		return ""
	}
	return fmt.Sprintf("timestamp(%s\n)", custom)
}

// Reads are the moments that the selectors of an expression read; none if the expression cannot be parsed.
type Reads []read

// read is the moment that a selector reads: offset before the evaluation, or before the fixed moment of an @ modifier.
type read struct {
	fixed  *time.Time
	offset time.Duration
}

func readsOf(promql string) (reads Reads) {
	parsed := parse(promql)
	if parsed == nil {
		return nil
	}
	parser.Inspect(parsed, func(node parser.Node, path []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		var r read
		for _, outer := range path {
			if subquery, ok := outer.(*parser.SubqueryExpr); ok {
				r = r.modified(subquery.Timestamp, subquery.StartOrEnd, subquery.OriginalOffset)
			}
		}
		reads = append(reads, r.modified(selector.Timestamp, selector.StartOrEnd, selector.OriginalOffset))
		return nil
	})
	return reads
}

// modified applies the modifiers of a selector or subquery that is evaluated at r.
// An @ replaces the moment, even within a subquery; start() and end() are the evaluation of an instant query.
func (r read) modified(atMillis *int64, startOrEnd parser.ItemType, offset time.Duration) read {
	switch {
	case atMillis != nil:
		at, ok := Time(float64(*atMillis) / 1000)
		if !ok {
			at = time.Unix(0, 0) // before all samples
		}
		r = read{fixed: &at}
	case startOrEnd != 0:
		r = read{}
	}
	r.offset += offset
	return r
}

// Newest returns the newest moment that is read at an evaluation: the evaluation itself if nothing else is certain.
func (all Reads) Newest(evaluated time.Time) time.Time {
	var newest time.Time
	for i, r := range all {
		at := evaluated
		if r.fixed != nil {
			at = *r.fixed
		}
		if at = at.Add(-r.offset); i == 0 || at.After(newest) {
			newest = at
		}
	}
	if len(all) == 0 || newest.After(evaluated) {
		return evaluated
	}
	return newest
}

// Past reports whether every selector reads before the evaluation, by offset or @.
func (all Reads) Past() bool {
	for _, r := range all {
		if r.fixed == nil && r.offset <= 0 {
			return false
		}
	}
	return len(all) > 0
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

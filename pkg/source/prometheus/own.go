package prometheus

import (
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

// ownExpression returns the queries for the operator's own expression. The deviation is that of the same expression over short
// windows.
func ownExpression(own string, s sampling) expression {
	mean := withWindow(own, s.window)
	return expression{
		mean: mean,
		// The line break ends a comment that the expression may end with.
		stdDev: fmt.Sprintf("stddev_over_time((%s\n)[%s:%s])", withWindow(own, s.rate), s.window, s.step),
		reads:  readTimes(mean),
	}
}

func withWindow(own string, window model.Duration) string {
	return strings.ReplaceAll(own, "$window", window.String())
}

// ownNewestSample is newestSample for the operator's own expression. It returns "" unless the expression is a plain selector,
// such as the name of a recorded rule, without offset and @.
func ownNewestSample(own string, window model.Duration) string {
	own = withWindow(own, window)
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(own)
	if err != nil {
		return "" // another dialect of PromQL, or a mistake that the mean's query reports
	}
	if _, ok := parsed.(*parser.VectorSelector); !ok || readsPast(readTimes(own)) {
		return ""
	}
	return fmt.Sprintf("timestamp(%s\n)", own)
}

// readTime is the moment that a selector reads: offset before its evaluation, or before the fixed moment of an @ modifier.
type readTime struct {
	fixed  *time.Time
	offset time.Duration
}

// readTimes returns the moment that each selector of an expression reads; none if the expression cannot be parsed.
func readTimes(promql string) (times []readTime) {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(promql)
	if err != nil {
		return nil
	}
	parser.Inspect(parsed, func(node parser.Node, path []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		var t readTime
		for _, outer := range path {
			if subquery, ok := outer.(*parser.SubqueryExpr); ok {
				t = t.modified(subquery.Timestamp, subquery.StartOrEnd, subquery.OriginalOffset)
			}
		}
		times = append(times, t.modified(selector.Timestamp, selector.StartOrEnd, selector.OriginalOffset))
		return nil
	})
	return times
}

// modified returns what is read with the modifiers of a selector or subquery that is evaluated at t. An @ replaces the moment,
// even within a subquery; start() and end() are the evaluation of an instant query.
func (t readTime) modified(atMillis *int64, startOrEnd parser.ItemType, offset time.Duration) readTime {
	switch {
	case atMillis != nil:
		at, ok := timeOf(float64(*atMillis) / 1000)
		if !ok {
			at = time.Unix(0, 0) // no sample can be of such a moment
		}
		t = readTime{fixed: &at}
	case startOrEnd != 0:
		t = readTime{}
	}
	t.offset += offset
	return t
}

// newestRead returns the newest moment that is read at an evaluation, which is the evaluation itself if nothing is known.
func newestRead(times []readTime, evaluated time.Time) time.Time {
	var newest time.Time
	for i, t := range times {
		at := evaluated
		if t.fixed != nil {
			at = *t.fixed
		}
		if at = at.Add(-t.offset); i == 0 || at.After(newest) {
			newest = at
		}
	}
	if len(times) == 0 || newest.After(evaluated) {
		return evaluated
	}
	return newest
}

// readsPast reports whether all that is read is older than the evaluation, by offset or @.
func readsPast(times []readTime) bool {
	for _, t := range times {
		if t.fixed == nil && t.offset <= 0 {
			return false
		}
	}
	return len(times) > 0
}

package promql

import (
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// Selector are label matchers. The zero value matches all series.
type Selector []*labels.Matcher

// ParseSelector returns the matchers of a valid selector in braces; none if it is empty.
func ParseSelector(text string) Selector {
	if selector, ok := parse(text).(*parser.VectorSelector); ok {
		return selector.LabelMatchers
	}
	return nil
}

// restrict returns the expression for series that match.
func (s Selector) restrict(e expression) expression {
	e.mean, e.stdDev = s.add(e.mean), s.add(e.stdDev)
	return e
}

// add returns the query of a dialect with the matchers in all of its selectors.
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

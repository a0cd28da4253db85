package manifests

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Query is a PromQL query of a dashboard.
type Query struct {
	// Panel is the title of its panel.
	Panel string
	// Expression is the query with Grafana's variables replaced.
	Expression string
}

// Queries returns all queries of a Grafana dashboard, with the variables replaced by their values.
func Queries(dashboard []byte, variables map[string]string) ([]Query, error) {
	var d struct {
		Panels []struct {
			Title   string `json:"title"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	if err := json.Unmarshal(dashboard, &d); err != nil {
		return nil, fmt.Errorf("reading the dashboard: %w", err)
	}
	var pairs []string
	for name, value := range variables {
		pairs = append(pairs, "$"+name, value)
	}
	fill := strings.NewReplacer(pairs...)
	var queries []Query
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			q := Query{Panel: panel.Title, Expression: fill.Replace(target.Expr)}
			if strings.Contains(q.Expression, "$") {
				return nil, fmt.Errorf("panel %q: %s has a variable without a value", panel.Title, q.Expression)
			}
			queries = append(queries, q)
		}
	}
	return queries, nil
}

package main

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"
)

// result is one line of benchmark output.
type result struct {
	// parts are the elements of the name, such as "Score", "TargetLoadPacking" and "nodes=500".
	parts []string
	// values are by unit, as they were printed.
	values map[string]float64
}

type results []result

// read reads all results. A file that is not benchmark output has no results.
func read(files *benchfmt.Files) (results, error) {
	var all results
	for files.Scan() {
		switch rec := files.Result().(type) {
		case *benchfmt.SyntaxError:
			return nil, rec
		case *benchfmt.Result:
			base, parts := rec.Name.Parts()
			r := result{parts: []string{string(base)}, values: map[string]float64{}}
			for _, part := range parts {
				r.parts = append(r.parts, strings.TrimPrefix(string(part), "/"))
			}
			for _, v := range rec.Values {
				if v.OrigUnit != "" {
					v.Value, v.Unit = v.OrigValue, v.OrigUnit
				}
				r.values[v.Unit] = v.Value
			}
			all = append(all, r)
		}
	}
	if err := files.Err(); err != nil {
		return nil, fmt.Errorf("reading benchmark output: %w", err)
	}
	return all, nil
}

// values returns the results in the unit, of all benchmarks with all parts in their names. The order is that of measurement.
func (r results) values(unit string, parts ...string) []float64 {
	var values []float64
	for _, result := range r {
		has := func(part string) bool { return slices.Contains(result.parts, part) }
		if v, ok := result.values[unit]; ok && !slices.ContainsFunc(parts, func(p string) bool { return !has(p) }) {
			values = append(values, v)
		}
	}
	return values
}

func median(values []float64) (float64, bool) {
	if len(values) == 0 {
		return 0, false
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[middle-1] + sorted[middle]) / 2, true
	}
	return sorted[middle], true
}

package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// RejectRule rejects the nodes whose value of a metric is above or below a bound. The zero value rejects none.
type RejectRule struct {
	operator string
	bound    float64
}

// ParseRejectRule parses a rule such as "> 5": one of >, >=, <, <= and a finite number. The empty string is the rule that
// rejects none.
func ParseRejectRule(text string) (RejectRule, error) {
	trimmed := strings.TrimSpace(text)
	if trimmed == "" {
		return RejectRule{}, nil
	}
	for _, operator := range []string{">=", "<=", ">", "<"} { // the longer ones first
		number, ok := strings.CutPrefix(trimmed, operator)
		if !ok {
			continue
		}
		bound, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || math.IsNaN(bound) || math.IsInf(bound, 0) {
			break
		}
		return RejectRule{operator: operator, bound: bound}, nil
	}
	return RejectRule{}, fmt.Errorf(`%q is not one of >, >=, <, <= and a finite number, such as "> 5"`, text)
}

// RulesOut reports whether the rule rejects a node with the given value. It never rejects NaN.
func (r RejectRule) RulesOut(value float64) bool {
	switch r.operator {
	case ">":
		return value > r.bound
	case ">=":
		return value >= r.bound
	case "<":
		return value < r.bound
	case "<=":
		return value <= r.bound
	}
	return false
}

// IsZero reports whether the rule rejects no node, whatever its value.
func (r RejectRule) IsZero() bool { return r.operator == "" }

// String returns the rule as in a configuration, such as "> 5".
func (r RejectRule) String() string {
	if r.IsZero() {
		return ""
	}
	return r.operator + " " + strconv.FormatFloat(r.bound, 'g', -1, 64)
}

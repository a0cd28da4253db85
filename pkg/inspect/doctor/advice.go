package doctor

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
)

// reporter is the type of warn and fail.
type reporter = func(advice []Advice, format string, args ...any) []Result

// Fine is the result of a check with nothing to fix.
func Fine(format string, args ...any) []Result { return resultOf(OK, nil, format, args) }

// Warn is the result of a check that found a Warning.
func Warn(advice []Advice, format string, args ...any) []Result {
	return resultOf(Warning, advice, format, args)
}

// Fail is the result of a check that found an Error.
func Fail(advice []Advice, format string, args ...any) []Result {
	return resultOf(Error, advice, format, args)
}

// Skip is the result of a check that does not apply, or not yet.
func Skip(format string, args ...any) []Result { return resultOf(Skipped, nil, format, args) }

// resultOf escapes characters that could control a terminal, for every output format.
func resultOf(status Status, advice []Advice, format string, args []any) []Result {
	return []Result{{Status: status, Message: text.Escape(fmt.Sprintf(format, args...)), Advice: advice}}
}

// failIf returns fail or warn.
func failIf(severe bool) reporter {
	if severe {
		return Fail
	}
	return Warn
}

// Advise advises without a command.
func Advise(format string, args ...any) []Advice { return adviseYAML("", format, args...) }

func adviseYAML(yaml, format string, args ...any) []Advice {
	return []Advice{{Text: text.Escape(fmt.Sprintf(format, args...)), YAML: escapeLines(yaml)}}
}

// escapeLines keeps line breaks, which commands and YAML need.
func escapeLines(lines string) string {
	return strings.Join(text.Each(strings.Split(lines, "\n"), text.Escape), "\n")
}

// AdviseRun advises to run a command against the cluster that was checked.
func (f *Facts) AdviseRun(command cluster.Command, format string, args ...any) []Advice {
	return []Advice{{Text: text.Escape(fmt.Sprintf(format, args...)), Command: escapeLines(command.For(f.chosen))}}
}

// adviseGrant advises to grant the user permissions. todo has no period.
func (f *Facts) adviseGrant(todo string, permissions []cluster.Permission, user string) []Advice {
	return adviseYAML(cluster.Grants(permissions, cluster.Subject(user)), "%s; write this to a file, and %s:", todo,
		cluster.Granting("apply", "-f", "FILE").For(f.chosen))
}

// adviseEdit advises to change the configuration. why is a sentence, or empty.
func (f *Facts) adviseEdit(yaml, todo, why string, args ...any) []Advice {
	in := " In "
	if strings.HasSuffix(why, ",") {
		in = " in "
	}
	return adviseYAML(yaml, "%s", strings.TrimSpace(fmt.Sprintf(why, args...)+in+f.Configuration.Origin+", "+todo))
}

// adviseInPod advises to run doctor in the scheduler's pod.
func (f *Facts) adviseInPod(format string, args ...any) []Advice {
	return f.AdviseRun(f.Configuration.Workload.DoctorCommand(), format, args...)
}

// adviseValues advises to set values of the chart. todo has no period.
func (f *Facts) adviseValues(todo string, values ...string) []Advice {
	if command := f.Configuration.Workload.HelmCommand(values...); command != "" {
		return f.AdviseRun(command, "%s, by the chart's values:", todo)
	}
	return Advise("%s, by the chart's values %s.", todo, strings.Join(values, " and "))
}

// providerYAML returns one field of metricProvider.
func providerYAML(field string, value any) string {
	text, _ := yaml.Marshal(map[string]any{"metricProvider": map[string]any{field: value}}) // never fails for strings and maps
	return string(text)
}

// OneLine returns the error on one line.
func OneLine(err error) string {
	return strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")
}

// rounded rounds a duration as messages show it.
func rounded(d time.Duration) string {
	for _, unit := range []time.Duration{time.Second, 100 * time.Millisecond} {
		if d.Abs() >= 10*unit {
			return d.Round(unit).String()
		}
	}
	return d.Round(time.Millisecond).String()
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// each runs a check of each element.
func each[T any](list []T, run func(T) []Result) (results []Result) {
	for _, element := range list {
		results = append(results, run(element)...)
	}
	return results
}

// is reports whether the error is, or wraps, an E.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

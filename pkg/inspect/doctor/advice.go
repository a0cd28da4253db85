package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// run and write return one advice, with a command or with YAML.
func run(command, format string, args ...any) []Advice {
	return []Advice{{Text: fmt.Sprintf(format, args...), Command: command}}
}

func write(yaml, format string, args ...any) []Advice {
	return []Advice{{Text: fmt.Sprintf(format, args...), YAML: yaml}}
}

func seeChecks(group string) []Advice {
	return run("", "Fix what the %s checks say first.", group)
}

// inConfiguration begins a sentence.
func (f *facts) inConfiguration() string { return "In " + f.configuration.Origin + "," }

// runInPod returns the advice to run doctor in the scheduler's pod.
func (f *facts) runInPod(format string, args ...any) []Advice {
	return run(f.configuration.Workload.DoctorCommand(), format, args...)
}

// marshal returns the YAML of values that have one.
func marshal(object any) string {
	text, _ := yaml.Marshal(object)
	return string(text)
}

// providerYAML returns one field of metricProvider.
func providerYAML(field string, value any) string {
	return marshal(map[string]any{"metricProvider": map[string]any{field: value}})
}

// onOneLine returns the YAML of a list on one line.
func onOneLine(list []string) string {
	text, _ := json.Marshal(list) // JSON and YAML write strings alike
	return strings.ReplaceAll(string(text), `","`, `", "`)
}

// isName reports whether the text can be a name of Kubernetes, and needs no quotes in a shell.
func isName(text string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	return text != "" && strings.Contains(letters, text[:1]) && strings.Trim(text, letters+"-.") == ""
}

// lowerFirst lets a sentence follow another clause.
func lowerFirst(sentence string) string { return strings.ToLower(sentence[:1]) + sentence[1:] }

// plural returns "1 series belongs to" or "3 series belong to".
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// oneLine returns the error's text as a message.
func oneLine(err error) string { return strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ") }

// rounded rounds a duration as messages show it.
func rounded(d time.Duration) string {
	switch {
	case d.Abs() >= 10*time.Second:
		return d.Round(time.Second).String()
	case d.Abs() >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}

// roundUp returns the next multiple of five seconds.
func roundUp(d time.Duration) time.Duration {
	const step = 5 * time.Second
	return (d + step - 1).Truncate(step)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// asError is errors.As for a type whose values are errors.
func asError[E error](err error) (E, bool) {
	var e E
	return e, errors.As(err, &e)
}

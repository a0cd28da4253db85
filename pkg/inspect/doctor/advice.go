package doctor

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
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
	return run(execCommand(f.configuration.Workload), format, args...)
}

// restartCommand returns the command that restarts the workload; empty if there is none.
func restartCommand(w *live.Workload) string {
	if w == nil || w.Kind != "Deployment" {
		return ""
	}
	return fmt.Sprintf("kubectl -n %s rollout restart deployment %s", live.ShellQuote(w.Namespace), live.ShellQuote(w.Name))
}

// execCommand returns the command that runs this program in the scheduler's pod.
func execCommand(w *live.Workload) string {
	if w == nil {
		w = &live.Workload{Kind: "Deployment", Namespace: "plimsoll-system", Name: "plimsoll"}
	}
	return w.ExecCommand("kubectl-plimsoll doctor")
}

// helmCommand returns the command that sets values of the workload's release, with the chart's version that is installed.
func helmCommand(w *live.Workload, flags string) string {
	release, namespace, chart := "plimsoll", "plimsoll-system", "oci://ghcr.io/plimsoll-scheduler/charts/plimsoll"
	if w != nil && w.Name != "" {
		release, namespace = cmp.Or(w.Release, release), w.Namespace
		if w.ChartVersion != "" {
			chart += " --version " + live.ShellQuote(w.ChartVersion)
		}
	}
	return strings.TrimSpace(fmt.Sprintf("helm upgrade %s %s --namespace %s --reset-then-reuse-values %s",
		live.ShellQuote(release), chart, live.ShellQuote(namespace), flags))
}

func describeCommand(namespace, kind, name string) string {
	return fmt.Sprintf("kubectl -n %s describe %s %s", live.ShellQuote(namespace), strings.ToLower(kind), live.ShellQuote(name))
}

func logsCommand(namespace, object string) string {
	return fmt.Sprintf("kubectl -n %s logs %s --tail=20", live.ShellQuote(namespace), live.ShellQuote(object))
}

// marshal returns the YAML of values that have one.
func marshal(object any) string {
	text, _ := yaml.Marshal(object)
	return strings.ReplaceAll(string(text), "  creationTimestamp: null\n", "")
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

// Package finding has the findings of configurations and flags, and checks queries. It knows nothing of the scheduler.
package finding

import (
	"fmt"
	"strings"

	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
)

// Code is the kind of a finding: what it means, in one line.
type Code string

// The kinds of findings.
const (
	PluginEnabled   Code = "The configuration enables a plugin that does not exist; the scheduler does not start"
	PluginDisabled  Code = "The configuration disables a plugin that does not exist; the entry has no effect"
	PluginArguments Code = "The configuration has arguments for a plugin that does not exist; they have no effect"
	QueryInvalid    Code = "Prometheus cannot parse the query; a server with another dialect of PromQL may accept it"
	QueryOfAbsence  Code = "One minus a rate takes missing samples for load: a node whose exporter ended or began looks busy"
	LoadOutweighed  Code = "Other plugins outweigh the plugins that score by load"
	LimitUnweighted Code = "The weight at score is too small: with the limit waived, a pod may go to the most loaded node"
	LimitUnfiltered Code = "The limits of a plugin have no effect, because it is not enabled at filter"
	LimitNotWaived  Code = "The limit is never waived, because the plugin is not enabled at preFilter"
	LimitEvicts     Code = "With this gate of Kubernetes 1.36, a limit evicts pods for pod groups; the scheduler does not start"
	GateRemoved     Code = "Kubernetes 1.38 has removed the feature gate; a scheduler of 1.38 does not start with it"
	MetricUnused    Code = "The metric has no effect: it neither scores nor rejects a node"
	ArgumentsUnused Code = "The arguments have no effect: the profile does not enable the plugin where it reads them"
	SelectsNothing  Code = "The field selects nothing that the cluster has now"
	NodesUnmodelled Code = "Nodes have no power model"
	StockBeside     Code = "The profile enables a plugin and the stock plugin that it replaces; the scheduler does not start"
	StockWeight     Code = "The plugin replaces a stock plugin, and has another weight"
)

// Finding is something in a valid configuration that the operator probably did not mean.
type Finding struct {
	Code Code
	// Field is the path from the top of the file, such as profiles[0].pluginConfig[1].args.metrics[0].query, or a flag.
	Field string
	// Line is the line in the file, counted from 1; 0 if it is not known.
	Line int
	// Details are further keys and values of a structured log line.
	Details []any
	// Advice is an imperative. Similar are names that exist. Both may be empty.
	Advice  string
	Similar []string
	// YAML replaces the profile's, the entry's or the field's YAML; empty if no YAML fixes it.
	YAML string
	// Fatal says that the scheduler does not start with it.
	Fatal bool
}

// KeysAndValues returns the finding as the keys and values of a structured log line.
func (f *Finding) KeysAndValues() []any {
	all := []any{"field", f.Field}
	if f.Line > 0 {
		all = append(all, "line", f.Line)
	}
	all = append(all, f.Details...)
	if f.Advice != "" {
		all = append(all, "advice", f.Advice)
	}
	if len(f.Similar) > 0 {
		all = append(all, "similar", f.Similar)
	}
	return all
}

// String returns the finding as klog's text format shows it.
func (f *Finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q", string(f.Code))
	all := f.KeysAndValues()
	for i := 0; i+1 < len(all); i += 2 {
		switch value := all[i+1].(type) {
		case string, []string:
			fmt.Fprintf(&b, " %v=%q", all[i], value)
		default:
			fmt.Fprintf(&b, " %v=%v", all[i], value)
		}
	}
	return b.String()
}

// Warn logs findings at klog's level of warnings, which structured logs do not have. format is the log's: JSON has no levels, so an
// entry gets the key severity.
func Warn(findings []Finding, format string) {
	for i := range findings {
		f := &findings[i]
		if format == logsapi.JSONLogFormat {
			klog.Background().WithCallDepth(1).Info(string(f.Code), append(f.KeysAndValues(), "severity", "warning")...)
		} else {
			klog.WarningDepth(1, f.String())
		}
	}
}

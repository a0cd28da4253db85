package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	inTree "k8s.io/kubernetes/pkg/scheduler/framework/plugins"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/diagnosis"
)

// seriesReader answers a query with its series.
type seriesReader interface {
	Series(ctx context.Context, promql string) ([]prometheus.Series, error)
}

// checkLoad checks the sources of load, and what they say of the nodes.
// It fails if the options do not fit the configuration.
func (e *examination) checkLoad(ctx context.Context, all []runtime.Object) error {
	if e.configuration == nil || e.configuration.Decoded == nil {
		return nil
	}
	cluster, err := e.conn.Open(ctx, live.Options{Configuration: e.checkPowerModels(), Objects: all, Source: e.options.Source, IgnoreExtenders: true})
	if _, ok := asError[*live.OptionError](err); ok {
		return err
	}
	if err != nil {
		e.add(Error, "configuration.runs", oneLine(err), e.adviseUnknownPlugin())
		return nil
	}
	sources := cluster.Sources()
	if len(sources) == 0 {
		e.add(Warning, "source.configured", "no profile enables a plugin that reads load", Advice{
			Text: "Enable one in " + e.configuration.Origin + ", such as:",
			YAML: "plugins:\n  score:\n    enabled:\n    - name: TargetLoadPacking\n      weight: 5\n",
		})
		return nil
	}
	for i := range sources {
		s := &examinedSource{examination: e, Source: &sources[i], requirements: requirementsOf(e.configuration.Decoded, sources[i].Spec)}
		if len(sources) > 1 {
			s.prefix = sources[i].Label + ": "
		}
		s.checkReached()
		if sources[i].Err != nil && !s.answered() {
			continue
		}
		s.checkTook()
		s.examine(ctx)
		s.checkSeries()
		s.checkTables(ctx, cluster)
	}
	e.checkStatistics(cluster.Statistics())
	return nil
}

// checkStatistics checks the sources of what workloads use.
func (e *examination) checkStatistics(all []live.Statistics) {
	for i := range all {
		s := &all[i]
		known := s.Publisher.Latest().Len()
		message := fmt.Sprintf("%s: statistics of %s, %s", s.Label, text.Count(known, "workload"), s.Route)
		advice := Advice{Text: "Let the source have what pods use: cAdvisor's series, or those of the kubelet's /metrics/resource. PredictedPeak goes by requests until then."}
		switch {
		case s.Err != nil:
			e.add(Error, "source.statistics", s.Label+": "+oneLine(s.Err), advice)
		case s.HistoryErr != nil:
			e.add(Warning, "source.statistics", message+"; a part of the past is missing: "+oneLine(s.HistoryErr), Advice{
				Text:    "Statistics grow from now on. Let Prometheus record the past by the chart's value:",
				Command: helmCommand(e.configuration.Workload, "--set recordingRules.enabled=true"),
			})
		case known == 0:
			e.add(Warning, "source.statistics", message, advice)
		default:
			e.add(OK, "source.statistics", message)
		}
	}
}

// adviseUnknownPlugin says which plugin may be meant where one is enabled that does not exist.
func (e *examination) adviseUnknownPlugin() Advice {
	names := append(slices.Collect(maps.Keys(inTree.NewInTreeRegistry())), config.PluginNames()...)
	slices.Sort(names)
	for i := range e.configuration.Decoded.Profiles {
		p := e.configuration.Decoded.Profiles[i].Plugins
		if p == nil {
			continue
		}
		for _, name := range p.Names() {
			if slices.Contains(names, name) {
				continue
			}
			if similar := configlint.SimilarNames(name, names); len(similar) > 0 {
				return Advice{
					Text: fmt.Sprintf("In %s, in profiles[%d].plugins, in place of %s write:", e.configuration.Origin, i, text.Excerpt(name)),
					YAML: "name: " + similar[0] + "\n",
				}
			}
		}
	}
	return Advice{Text: "Change what the message names in " + e.configuration.Origin + "."}
}

// examinedSource is a source of load, and what is known of it.
type examinedSource struct {
	*examination
	*live.Source
	requirements requirements
	// prefix tells the source from others in messages.
	prefix string
	// diagnosis and examined are those of a Prometheus.
	diagnosis diagnosis.Diagnosis
	examined  diagnosis.Examination
}

func (s *examinedSource) add(status Status, id, message string, advice ...Advice) {
	s.examination.add(status, id, s.prefix+message, advice...)
}

// requirements are what plugins read of one source.
type requirements struct {
	// windows are those of load, sorted; none if only node metrics are read.
	windows []time.Duration
	// deviation reports whether a plugin uses the standard deviation.
	deviation bool
	// spec is the shared part of the first plugin's arguments that reads load.
	spec config.LoadSpec
}

// requirementsOf returns what the plugins' arguments need of the source that spec names.
func requirementsOf(cfg *schedulerconfig.KubeSchedulerConfiguration, spec config.LoadSpec) requirements {
	r := requirements{spec: spec}
	for i := range cfg.Profiles {
		for _, pluginConfig := range cfg.Profiles[i].PluginConfig {
			args, ok := pluginConfig.Args.(interface{ GetLoadSpec() *config.LoadSpec })
			if !ok || !sameSource(*args.GetLoadSpec(), spec) || !enabled(&cfg.Profiles[i], pluginConfig.Name) {
				continue
			}
			windows := []time.Duration{args.GetLoadSpec().Window.Duration}
			switch args := pluginConfig.Args.(type) {
			case *config.NodeMetricsArgs:
				continue
			case *config.LoadVariationRiskBalancingArgs, *config.LowRiskOverCommitmentArgs:
				r.deviation = true
			case *config.LoadThresholdArgs:
				windows = []time.Duration{args.Windows.CPU.Duration, args.Windows.Memory.Duration}
				r.deviation = r.deviation || args.Statistic == config.StatisticMeanPlusStdDev
			}
			if len(r.windows) == 0 {
				r.spec = *args.GetLoadSpec()
			}
			r.windows = append(r.windows, windows...)
		}
	}
	slices.Sort(r.windows)
	r.windows = slices.Compact(r.windows)
	return r
}

func sameSource(a, b config.LoadSpec) bool {
	if a.WatcherAddress != "" || b.WatcherAddress != "" {
		return a.WatcherAddress == b.WatcherAddress
	}
	return a.MetricProvider.Type == b.MetricProvider.Type && a.MetricProvider.Address == b.MetricProvider.Address
}

// enabled reports whether the profile enables the plugin at any extension point.
func enabled(p *schedulerconfig.KubeSchedulerProfile, plugin string) bool {
	if p.Plugins == nil {
		return false
	}
	for _, set := range []schedulerconfig.PluginSet{p.Plugins.MultiPoint, p.Plugins.PreFilter, p.Plugins.Filter, p.Plugins.PreScore, p.Plugins.Score} {
		if slices.ContainsFunc(set.Enabled, func(other schedulerconfig.Plugin) bool { return other.Name == plugin }) {
			return true
		}
	}
	return false
}

// address returns the configured URL of the source; empty if it has none.
func (s *examinedSource) address() string {
	return s.Source.Address
}

// answered reports whether the source answered, though without load of any node.
func (s *examinedSource) answered() bool {
	p, ok := s.Reader.(*prometheus.Source)
	if !ok {
		return false
	}
	d := p.Diagnosis()
	return slices.ContainsFunc(d.Queries, func(q diagnosis.QueryDiagnosis) bool { return !isFailure(q.Err) }) ||
		len(d.Tried) > 0
}

// inConfiguration begins a sentence about the configuration.
func (s *examinedSource) inConfiguration() string { return "In " + s.configuration.Origin + "," }

// addressYAML returns the arguments that name another address.
func (s *examinedSource) addressYAML(address string) string {
	if s.Spec.WatcherAddress != "" {
		return "watcherAddress: " + address + "\n"
	}
	return "metricProvider:\n  address: " + address + "\n"
}

// isName reports whether the text can be a name of Kubernetes, and needs no quotes in a shell.
func isName(text string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	return text != "" && strings.Contains(letters, text[:1]) && strings.Trim(text, letters+"-.") == ""
}

// checkTook checks how long a refresh takes.
func (s *examinedSource) checkTook() {
	spec := s.Spec
	interval, timeout := spec.RefreshInterval.Duration, spec.MetricProvider.Timeout.Duration
	message := fmt.Sprintf("a refresh took %s; refreshInterval is %s, timeout %s", shownDuration(s.Took), interval, timeout)
	roomy := func(d time.Duration) time.Duration { return max(3*d, time.Second).Round(time.Second) }
	switch {
	case s.Took > interval:
		s.add(Warning, "source.duration", message, Advice{
			Text: s.inConfiguration() + " refresh less often than a refresh takes:", YAML: fmt.Sprintf("refreshInterval: %s\n", roomy(s.Took)),
		})
	case s.Took > timeout/2:
		s.add(Warning, "source.duration", message, Advice{
			Text: s.inConfiguration() + " allow more time, for a refresh may take longer some day:", YAML: fmt.Sprintf("metricProvider:\n  timeout: %s\n", roomy(s.Took)),
		})
	default:
		s.add(OK, "source.duration", message)
	}
}

package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	componentbaseconfig "k8s.io/component-base/config"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint/finding"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/descriptor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider"
)

func (f *Facts) checkFound() []Result {
	if f.configurationErr == nil {
		return nil
	}
	const advice = "Name the scheduler with --scheduler NAMESPACE/NAME, or write --config FILE."
	return Fail(Advise(advice), "%s", OneLine(f.configurationErr))
}

func (f *Facts) checkDecodes() []Result {
	switch c := f.Configuration; {
	case c.Err == nil:
		return Fine("the configuration is valid; its profiles are %s", strings.Join(f.Profiles(), ", "))
	case f.fatalFinding() != nil:
		return nil // the check of this finding reports it
	default:
		return Fail(f.correctFields(), "%s", OneLine(c.Err))
	}
}

func (f *Facts) correctFields() []Advice {
	return Advise("Correct the fields that the message names in %s.", f.Configuration.Origin)
}

// fatalFinding returns the first finding that prevents the scheduler's start, or nil.
func (f *Facts) fatalFinding() *finding.Finding {
	findings := f.Configuration.Findings
	if i := slices.IndexFunc(findings, func(each finding.Finding) bool { return each.Fatal }); i >= 0 {
		return &findings[i]
	}
	return nil
}

// Profiles returns the names of the profiles; none without a valid configuration.
func (f *Facts) Profiles() []string {
	if f.NeedConfiguration() != nil {
		return nil
	}
	return f.Configuration.ProfileNames()
}

// findingsOf returns the check with an ID, which shows findings.
func findingsOf(id string) func(*Facts) []Result {
	ids := map[finding.Code]string{
		finding.LoadOutweighed:  "configuration.weights",
		finding.LimitUnweighted: "configuration.weights",
		finding.StockWeight:     "configuration.weights",
		finding.NodesUnmodelled: "nodes.modelled",
	}
	return func(f *Facts) (results []Result) {
		c := f.Configuration
		if id == "configuration.effect" && c.Err == nil && len(c.Findings) == 0 {
			return Fine("no ineffective settings; plugin weights are sufficient")
		}
		for i := range c.Findings {
			if finding := &c.Findings[i]; cmp.Or(ids[finding.Code], "configuration.effect") == id {
				results = append(results, failIf(finding.Fatal)(f.adviseOn(finding), "%s", describe(finding))...)
			}
		}
		return results
	}
}

func describe(f *finding.Finding) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", f.Field, f.Code)
	for detail := range slices.Chunk(f.Details, 2) {
		fmt.Fprintf(&b, ", %s %q", detail[0], fmt.Sprint(detail[1]))
	}
	return strings.ReplaceAll(b.String(), "\n", `\n`)
}

func (f *Facts) adviseOn(finding *finding.Finding) []Advice {
	where, todo, yaml := finding.Field, cmp.Or(finding.Advice, "correct or remove it"), finding.YAML
	if finding.Line > 0 {
		where += fmt.Sprintf(" (line %d)", finding.Line)
	}
	if len(finding.Similar) > 0 {
		todo, yaml = "write the name of a plugin that exists", "name: "+finding.Similar[0]+"\n"
	}
	return adviseYAML(yaml, "In %s, at %s: %s.", f.Configuration.Origin, where, todo)
}

// checkStockProfile finds the stock scheduler's profile, unless the scheduler replaces it.
func (f *Facts) checkStockProfile() []Result {
	i := slices.Index(f.Profiles(), "default-scheduler")
	election := f.Election()
	replaced := election.ResourceName == "kube-scheduler" && election.ResourceNamespace == "kube-system"
	if i < 0 || f.Configuration.Workload == nil || replaced {
		return nil
	}
	return Warn(f.adviseEdit("schedulerName: plimsoll\n", "remove the profile, or rename it:", ""),
		"profiles[%d].schedulerName: default-scheduler is also a profile of the stock scheduler: two schedulers place the same pods", i)
}

// Election returns the settings of leader election. Flags override the file.
func (f *Facts) Election() componentbaseconfig.LeaderElectionConfiguration {
	if f.Configuration.Workload == nil {
		return f.Configuration.Decoded.LeaderElection
	}
	return f.Configuration.Workload.LeaderElection(f.Configuration.Decoded)
}

// checkRuns says why the scheduler would not start. Validation does not know which plugins exist.
func (f *Facts) checkRuns() []Result {
	if f.clusterErr == nil {
		return nil
	}
	advice := f.correctFields()
	if finding := f.fatalFinding(); finding != nil {
		advice = f.adviseOn(finding)
	}
	return Fail(advice, "%s", OneLine(f.clusterErr))
}

func (f *Facts) checkConfigured() []Result {
	if len(f.sources) > 0 {
		return nil
	}
	return Warn(f.AdviseLoadPlugin(), "no profile enables a plugin that reads load")
}

// AdviseLoadPlugin advises to enable a plugin that reads load.
func (f *Facts) AdviseLoadPlugin() []Advice {
	ranked := slices.DeleteFunc(plugins.All(), func(d descriptor.Descriptor) bool { return !d.ScoresByLoad || d.LineRank == 0 })
	name := slices.MinFunc(ranked, func(a, b descriptor.Descriptor) int { return a.LineRank - b.LineRank }).Name
	return f.adviseEdit("plugins:\n  score:\n    enabled:\n    - name: "+name+"\n      weight: 5\n", "enable one, such as:", "")
}

// checkStatistics checks the sources of the usage of workloads.
func (f *Facts) checkStatistics() []Result {
	return each(f.statistics, func(s provider.StatisticsStatus) []Result {
		workloads := s.Publisher.Latest().Len()
		message := fmt.Sprintf("%s: statistics of %s", s.Label, text.Count(workloads, "workload"))
		advice := Advise("Let the source have cAdvisor's series, or the kubelet's. Until then peaks are predicted by requests.")
		switch {
		case errors.Is(s.Err, cluster.ErrNotHere):
			return Warn(f.adviseInPod("Check in the scheduler's pod:"), "%s: not checked from here: %s", s.Label, OneLine(s.Err))
		case s.Err != nil:
			return Fail(advice, "%s: %s", s.Label, OneLine(s.Err))
		case s.HistoryErr != nil:
			return Warn(f.adviseValues("Statistics grow from now on. Let Prometheus record the past", "recordingRules.enabled=true"),
				"%s; a part of the past is missing: %s", message, OneLine(s.HistoryErr))
		case workloads == 0 && s.UnmeasuredErr == nil:
			return Skip("not checked, because no pod of a workload is measured yet")
		case workloads == 0:
			return Warn(advice, "%s", message)
		}
		return Fine("%s", message)
	})
}

// checkPods checks that the sources measure the usage of nearly all pods.
func (f *Facts) checkPods() []Result {
	return each(f.statistics, func(s provider.StatisticsStatus) []Result {
		advice := f.AdviseRun(cluster.Kubectl("top", "pods", "--all-namespaces"),
			"Requests predict the peak of the other pods. See which pods metrics-server measures:")
		if s.FromPrometheus() {
			advice = Advise("Requests predict the peak of the other pods. Let Prometheus scrape /metrics/cadvisor or /metrics/resource of " +
				"each kubelet, with honorLabels: true. Or let metrics-server give the pods: metricProvider.podsFromMetricsServer: true.")
		}
		switch {
		case s.Err != nil: // checkStatistics reports it
			return nil
		case s.UnmeasuredErr != nil:
			return Warn(advice, "%s: %s", s.Label, OneLine(s.UnmeasuredErr))
		}
		return Fine("%s: nearly all pods are measured, or all", s.Label)
	})
}

// addFindings adds the findings of what the cluster does not have.
func (g *gatherer) addFindings() {
	g.Named = configlint.Cluster{Nodes: g.nodes, Namespaces: ListOf[*corev1.Namespace](g.Objects)}
	c := g.Configuration
	unknown := func(f finding.Finding) bool { return f.Code == finding.NodesUnmodelled && g.hasPowerModelsOfPod() }
	c.Findings = append(c.Findings, slices.DeleteFunc(configlint.CheckCluster(c.Content, c.Decoded, g.Named), unknown)...)
}

// hasPowerModelsOfPod reports whether only the scheduler's pod has the file with power models.
func (f *Facts) hasPowerModelsOfPod() bool {
	w := f.Configuration.Workload
	return w != nil && w.Env[config.NodePowerModelVariable] != "" && os.Getenv(config.NodePowerModelVariable) == ""
}

// withPowerModels returns the configuration to simulate. A plugin that needs power models does not start without any, so a
// placeholder replaces a file that only the scheduler's pod has.
func (g *gatherer) withPowerModels() *schedulerconfig.KubeSchedulerConfiguration {
	simulated := g.Configuration.Decoded.DeepCopy()
	if !g.hasPowerModelsOfPod() {
		return simulated
	}
	for _, profile := range simulated.Profiles {
		for _, plugin := range profile.PluginConfig {
			if args, ok := plugin.Args.(interface{ AddDefaultPowerModel(config.PowerModel) }); ok {
				args.AddDefaultPowerModel(config.PowerModel{K1: 1, K2: 0.01})
			}
		}
	}
	return simulated
}

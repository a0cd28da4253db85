package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	componentbaseconfig "k8s.io/component-base/config"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
)

func (f *facts) checkFound() []Check {
	if f.configurationErr == nil {
		return nil
	}
	return fail(
		run(
			"",
			"Name the scheduler with --scheduler NAMESPACE/NAME, or write --config FILE or --from configmap/NAMESPACE/NAME.",
		),
		"%s",
		oneLine(f.configurationErr),
	)
}

func (f *facts) checkDecodes() []Check {
	c := f.configuration
	if c.Err != nil {
		if slices.ContainsFunc(c.Findings, func(finding configlint.Finding) bool { return finding.Fatal }) {
			return nil // the finding says it
		}
		return fail(f.correctFields(), "%s", oneLine(c.Err))
	}
	return ok("the configuration is valid; its profiles are %s", strings.Join(f.profiles(), ", "))
}

func (f *facts) correctFields() []Advice {
	return run("", "Correct the fields that the message names in %s.", f.configuration.Origin)
}

// profiles returns the names that pods use for the scheduler; none without a valid configuration.
func (f *facts) profiles() []string {
	var names []string
	if f.needConfiguration() == nil {
		for i := range f.configuration.Decoded.Profiles {
			names = append(names, f.configuration.Decoded.Profiles[i].SchedulerName)
		}
	}
	return names
}

// findingsOf returns the check that shows the findings of an ID.
func findingsOf(id string) func(*facts) []Check {
	return func(f *facts) []Check {
		c := f.configuration
		if id == "configuration.effect" && c.Err == nil && len(c.Findings) == 0 {
			return ok("no ineffective settings; plugin weights are sufficient")
		}
		var checks []Check
		for i := range c.Findings {
			finding := &c.Findings[i]
			if idOf(finding.Code) != id {
				continue
			}
			result := Check{Status: Warning, Message: describe(finding), Advice: []Advice{adviseOn(finding, c.Origin)}}
			if finding.Fatal {
				result.Status = Error
			}
			checks = append(checks, result)
		}
		return checks
	}
}

func idOf(code configlint.Code) string {
	switch code {
	case configlint.ProfileRepeated:
		return "configuration.profiles"
	case configlint.LoadOutweighed, configlint.LimitUnweighted:
		return "configuration.weights"
	}
	return "configuration.effect"
}

// describe returns the finding on one line.
func describe(f *configlint.Finding) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", f.Field, f.Code)
	for i := 0; i+1 < len(f.Details); i += 2 {
		fmt.Fprintf(&b, ", %s %q", f.Details[i], fmt.Sprint(f.Details[i+1]))
	}
	return strings.ReplaceAll(b.String(), "\n", `\n`)
}

func adviseOn(f *configlint.Finding, origin string) Advice {
	where, todo, yaml := f.Field, cmp.Or(f.Advice, "correct or remove it"), f.YAML
	if f.Line > 0 {
		where = fmt.Sprintf("%s (line %d)", f.Field, f.Line)
	}
	if len(f.Similar) > 0 {
		todo, yaml = "write the name of a plugin that exists", "name: "+f.Similar[0]+"\n"
	}
	return Advice{Text: fmt.Sprintf("In %s, at %s: %s.", origin, where, todo), YAML: yaml}
}

// checkSharedProfile finds a profile that the stock scheduler has, too.
func (f *facts) checkSharedProfile() []Check {
	i := slices.Index(f.profiles(), "default-scheduler")
	election := f.election()
	replaced := election.ResourceName == "kube-scheduler" && election.ResourceNamespace == "kube-system"
	if i < 0 || f.configuration.Workload == nil || replaced {
		return nil
	}
	return warn(write("schedulerName: plimsoll\n", "%s remove the profile, or rename it:", f.inConfiguration()),
		"profiles[%d].schedulerName: default-scheduler is also a profile of the stock scheduler: two schedulers place the same pods", i)
}

// election returns how the scheduler elects a leader. Flags override the file.
func (f *facts) election() componentbaseconfig.LeaderElectionConfiguration {
	if f.configuration.Workload == nil {
		return f.configuration.Decoded.LeaderElection
	}
	return f.configuration.Workload.LeaderElection(f.configuration.Decoded)
}

// checkRuns says why the scheduler would not start. Validation does not know which plugins exist.
func (f *facts) checkRuns() []Check {
	if f.clusterErr == nil {
		return nil
	}
	for i := range f.configuration.Findings {
		if finding := &f.configuration.Findings[i]; finding.Fatal {
			return fail([]Advice{adviseOn(finding, f.configuration.Origin)}, "%s", oneLine(f.clusterErr))
		}
	}
	return fail(f.correctFields(), "%s", oneLine(f.clusterErr))
}

func (f *facts) checkConfigured() []Check {
	if len(f.sources) > 0 {
		return nil
	}
	packing := slices.DeleteFunc(plugins.All(), func(d plugins.Descriptor) bool { return !d.ScoresByLoad || d.LineRank == 0 })
	name := slices.MinFunc(packing, func(a, b plugins.Descriptor) int { return a.LineRank - b.LineRank }).Name
	example := "plugins:\n  score:\n    enabled:\n    - name: " + name + "\n      weight: 5\n"
	return warn(write(example, "Enable one in %s, such as:", f.configuration.Origin), "no profile enables a plugin that reads load")
}

// enabledPlugins returns the plugins that are enabled at any extension point.
func enabledPlugins(p *schedulerconfig.Plugins) []string {
	if p == nil {
		return nil
	}
	names := p.Names()
	for _, plugin := range p.MultiPoint.Enabled {
		names = append(names, plugin.Name)
	}
	return names
}

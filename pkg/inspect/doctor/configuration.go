package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	componentbaseconfig "k8s.io/component-base/config"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
)

// checkConfiguration checks the configuration itself.
func (e *examination) checkConfiguration() {
	c := e.configuration
	if c == nil {
		return
	}
	e.report.Configuration, e.report.Restart = c.Origin, restartCommand(c.Workload)
	checks := findingChecks(c.Findings, c.Origin)
	if c.Err != nil {
		if !slices.ContainsFunc(checks, func(k Check) bool { return k.Status == Error }) {
			e.add(Error, "configuration.decodes", oneLine(c.Err), Advice{Text: "Change what the message names in " + c.Origin + "."})
		}
		e.addAll(checks)
		return
	}
	var names []string
	for i := range c.Decoded.Profiles {
		names = append(names, c.Decoded.Profiles[i].SchedulerName)
	}
	e.add(OK, "configuration.decodes", fmt.Sprintf("it is valid, and its profiles are %s", strings.Join(names, ", ")))
	if len(checks) == 0 {
		e.add(OK, "configuration.effect", "all of it has an effect, and load is not outvoted")
	}
	e.addAll(checks)
	e.checkSharedProfiles()
}

// findingChecks returns a check for each finding.
func findingChecks(findings []configlint.Finding, origin string) []Check {
	var checks []Check
	for i := range findings {
		f := &findings[i]
		status, id := Warning, "configuration.effect"
		switch f.Code {
		case configlint.ProfileRepeated:
			id = "configuration.profiles"
		case configlint.LoadOutweighed, configlint.LimitUnweighted:
			id = "configuration.weights"
		}
		if f.Fatal {
			status = Error
		}
		checks = append(checks, newCheck(status, id, findingMessage(f), findingAdvice(f, origin)))
	}
	return checks
}

// findingMessage returns the finding on one line.
func findingMessage(f *configlint.Finding) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", f.Field, f.Code)
	for i := 0; i+1 < len(f.Details); i += 2 {
		fmt.Fprintf(&b, ", %s %q", f.Details[i], fmt.Sprint(f.Details[i+1]))
	}
	return strings.ReplaceAll(b.String(), "\n", `\n`)
}

func findingAdvice(f *configlint.Finding, origin string) Advice {
	where, todo, yaml := f.Field, cmp.Or(f.Advice, "correct or remove it"), f.YAML
	if f.Line > 0 {
		where = fmt.Sprintf("%s (line %d)", f.Field, f.Line)
	}
	if len(f.Similar) > 0 {
		todo, yaml = "write the name of a plugin that exists", "name: "+f.Similar[0]+"\n"
	}
	return Advice{Text: fmt.Sprintf("In %s, at %s: %s.", origin, where, todo), YAML: yaml}
}

// checkSharedProfiles finds a profile that the default scheduler has too.
func (e *examination) checkSharedProfiles() {
	cfg := e.configuration.Decoded
	i := slices.IndexFunc(cfg.Profiles, func(p schedulerconfig.KubeSchedulerProfile) bool { return p.SchedulerName == "default-scheduler" })
	election := e.election()
	if i < 0 || e.configuration.Workload == nil || election.ResourceName == stockLease && election.ResourceNamespace == stockNamespace {
		return
	}
	e.add(Warning, "configuration.profiles",
		fmt.Sprintf("profiles[%d].schedulerName: default-scheduler is also the name of the stock scheduler's profile: where that runs, two schedulers place the same pods", i),
		Advice{
			Text: fmt.Sprintf("In %s: remove the profile, or give it a name of its own.", e.configuration.Origin),
			YAML: "schedulerName: plimsoll\n",
		})
}

const stockLease, stockNamespace = "kube-scheduler", "kube-system"

// election returns how the scheduler of the configuration elects a leader: as its flags say, and otherwise as the file does.
func (e *examination) election() componentbaseconfig.LeaderElectionConfiguration {
	election := e.configuration.Decoded.LeaderElection
	if e.configuration.Workload == nil {
		return election
	}
	flags := e.configuration.Workload.Flags()
	if flags.Changed("leader-elect") {
		election.LeaderElect, _ = flags.GetBool("leader-elect") // it exists
	}
	for name, value := range map[string]*string{
		"leader-elect-resource-name": &election.ResourceName, "leader-elect-resource-namespace": &election.ResourceNamespace,
	} {
		if flags.Changed(name) {
			*value, _ = flags.GetString(name)
		}
	}
	if flags.Changed("leader-elect-lease-duration") {
		election.LeaseDuration.Duration, _ = flags.GetDuration("leader-elect-lease-duration")
	}
	return election
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

// helmCommand returns the command that sets values of the chart's release that the workload belongs to, with the chart that it was
// installed from.
func helmCommand(w *live.Workload, flags string) string {
	release, namespace, chart := "plimsoll", "plimsoll-system", "oci://ghcr.io/plimsoll-scheduler/charts/plimsoll"
	if w != nil && w.Name != "" {
		release, namespace = cmp.Or(w.Release, release), w.Namespace
		if w.ChartVersion != "" {
			chart += " --version " + live.ShellQuote(w.ChartVersion)
		}
	}
	return strings.TrimSpace(fmt.Sprintf("helm upgrade %s %s --namespace %s --reset-then-reuse-values %s", live.ShellQuote(release), chart, live.ShellQuote(namespace), flags))
}

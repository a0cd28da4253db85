package live

import (
	"cmp"
	"fmt"
	"strings"
)

// RestartCommand returns the command that restarts the workload; empty if there is none.
func (w *Workload) RestartCommand() string {
	if w == nil || w.Kind != "Deployment" {
		return ""
	}
	return fmt.Sprintf("kubectl -n %s rollout restart deployment %s", ShellQuote(w.Namespace), ShellQuote(w.Name))
}

// DoctorCommand returns the command that runs doctor in the scheduler's pod; nil is the chart's default.
func (w *Workload) DoctorCommand() string {
	if w == nil {
		w = &Workload{Kind: "Deployment", Namespace: "plimsoll-system", Name: "plimsoll"}
	}
	return w.ExecCommand("kubectl-plimsoll doctor")
}

// HelmCommand returns the command that sets values of the workload's release; nil is the chart's default.
func (w *Workload) HelmCommand(flags string) string {
	release, namespace, chart := "plimsoll", "plimsoll-system", "oci://ghcr.io/plimsoll-scheduler/charts/plimsoll"
	if w != nil && w.Name != "" {
		release, namespace = cmp.Or(w.Release, release), w.Namespace
		if w.ChartVersion != "" {
			chart += " --version " + ShellQuote(w.ChartVersion)
		}
	}
	return strings.TrimSpace(fmt.Sprintf("helm upgrade %s %s --namespace %s --reset-then-reuse-values %s",
		ShellQuote(release), chart, ShellQuote(namespace), flags))
}

// DescribeCommand returns the command that shows an object and its events.
func DescribeCommand(namespace, kind, name string) string {
	return fmt.Sprintf("kubectl -n %s describe %s %s", ShellQuote(namespace), strings.ToLower(kind), ShellQuote(name))
}

// LogsCommand returns the command that shows the end of a log.
func LogsCommand(namespace, object string) string {
	return fmt.Sprintf("kubectl -n %s logs %s --tail=20", ShellQuote(namespace), ShellQuote(object))
}

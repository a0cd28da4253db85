package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
	"github.com/plimsoll-scheduler/plimsoll/pkg/skew"
)

// readyPods returns how many pods of the scheduler are ready, and the first other pod, if any.
func (f *facts) readyPods(w *live.Workload) (ready int, first *corev1.Pod) {
	for _, name := range w.Pods {
		switch pod := f.objects.pod(w.Namespace, name); {
		case pod == nil:
		case podReady(pod):
			ready++
		case first == nil:
			first = pod
		}
	}
	return ready, first
}

// checkReady checks that the scheduler's pods are ready.
func (f *facts) checkReady() []Check {
	w := f.workload()
	if w == nil {
		return nil
	}
	ready, first := f.readyPods(w)
	message := fmt.Sprintf("%d of %s of %s ready", ready, text.Count(len(w.Pods), "pod"), w)
	result := warn
	switch {
	case ready > 0 && ready == len(w.Pods):
		return ok("%s", message)
	case ready == 0:
		result = fail
	}
	if first == nil {
		return result(run(live.DescribeCommand(w.Namespace, w.Kind, w.Name), "See why it has no pods:"), "%s", message)
	}
	logs := live.LogsCommand(w.Namespace, first.Name) + " -c " + live.ShellQuote(cmp.Or(w.Container, first.Spec.Containers[0].Name))
	for _, c := range first.Status.ContainerStatuses {
		if c.Name != cmp.Or(w.Container, c.Name) {
			continue
		}
		if c.State.Waiting != nil {
			message += fmt.Sprintf("; %s waits: %s %s", first.Name, text.Excerpt(c.State.Waiting.Reason),
				text.Excerpt(c.State.Waiting.Message))
		}
		if c.LastTerminationState.Terminated != nil && c.RestartCount > 0 {
			logs += " --previous"
		}
	}
	return result(append(run(live.DescribeCommand(w.Namespace, "Pod", first.Name), "See its events:"), run(logs, "See its log:")...),
		"%s", message)
}

// leading reports whether the scheduler works, as far as that is known.
func (f *facts) leading() bool {
	w := f.workload()
	if w == nil {
		return true
	}
	if f.objects != nil {
		if ready, _ := f.readyPods(w); ready == 0 {
			return false
		}
	}
	if f.needConfiguration() != nil || !f.election().LeaderElect {
		return true
	}
	holder, age, duration := f.leader()
	return !apierrors.IsNotFound(f.leaseErr) && (f.leaseErr != nil || holder != "" && age <= 2*duration)
}

// leader returns who holds the Lease, how long ago it was renewed, and for how long.
func (f *facts) leader() (holder string, age, duration time.Duration) {
	duration = f.election().LeaseDuration.Duration
	if f.leaseErr != nil || f.lease == nil {
		return "", 0, duration
	}
	spec := f.lease.Spec
	if spec.HolderIdentity != nil {
		holder, _, _ = strings.Cut(text.Excerpt(*spec.HolderIdentity), "_")
	}
	if spec.LeaseDurationSeconds != nil {
		duration = time.Duration(*spec.LeaseDurationSeconds) * time.Second
	}
	renewed := time.Time{}
	if spec.RenewTime != nil {
		renewed = spec.RenewTime.Time
	}
	return holder, max(f.now.Add(f.server.Skew).Sub(renewed), 0), duration
}

// checkLeader checks that a replica leads.
func (f *facts) checkLeader() []Check {
	w, election := f.workload(), f.election()
	if w == nil {
		return nil
	}
	if !election.LeaderElect {
		return ok("leader election is disabled")
	}
	name := election.ResourceNamespace + "/" + election.ResourceName
	object := w.Name
	if w.Kind == "Deployment" {
		object = "deploy/" + w.Name
	}
	logs := run(live.LogsCommand(w.Namespace, object)+" -c "+live.ShellQuote(cmp.Or(w.Container, "kube-scheduler")),
		"See in its log what it waits for:")
	holder, age, duration := f.leader()
	switch {
	case apierrors.IsNotFound(f.leaseErr):
		return fail(logs, "no leader yet: there is no Lease %s", name)
	case f.leaseErr != nil:
		get := fmt.Sprintf("kubectl -n %s get lease %s -o yaml", live.ShellQuote(election.ResourceNamespace),
			live.ShellQuote(election.ResourceName))
		return warn(run(get, "Run this as a user with permission to get leases, or see for yourself:"),
			"the Lease %s could not be read: %s", name, oneLine(f.leaseErr))
	case holder == "":
		return fail(logs, "no leader: Lease %s has been released", name)
	case age > 2*duration:
		return fail(logs, "no leader: Lease %s was renewed %s ago, for %s", name, rounded(age), duration)
	case !slices.Contains(w.Pods, holder) && w.Kind == "Deployment":
		return warn(write(fmt.Sprintf("leaderElection:\n  resourceName: %s\n  resourceNamespace: %s\n", w.Name, w.Namespace),
			"Remove the other scheduler with the same Lease. Or, %s choose another Lease:", lowerFirst(f.inConfiguration())),
			"%s leads, which is no pod of %s: Lease %s", holder, w, name)
	}
	return ok("%s leads; it renewed Lease %s %s ago", holder, name, rounded(age))
}

// schedulerVersion returns the scheduler's Kubernetes version by its metrics; failing that, the minor by the tag of its image.
// It is empty if neither is known.
func (f *facts) schedulerVersion() string {
	w := f.workload()
	labels := map[model.LabelValue]model.LabelName{"kubernetes_build_info": "git_version", "plimsoll_build_info": "kubernetes"}
	versions := map[string]bool{}
	for _, sample := range f.metrics {
		// Prometheus has the metrics of other schedulers, too.
		if pod := string(sample.Metric["pod"]); pod != "" && w != nil && !slices.Contains(w.Pods, pod) {
			continue
		}
		if label, ok := labels[sample.Metric[model.MetricNameLabel]]; ok {
			versions[text.Excerpt(string(sample.Metric[label]))] = true
		}
	}
	switch {
	case len(versions) == 1:
		return sortedKeys(versions)[0]
	case w != nil:
		return skew.MinorOfImage(w.Image)
	}
	return ""
}

// checkVersion compares the scheduler's version with the API server's.
func (f *facts) checkVersion() []Check {
	w, scheduler, server := f.workload(), f.schedulerVersion(), f.server.GitVersion
	if scheduler == "" {
		if w == nil {
			return nil
		}
		return warn(run(w.ExecCommand(live.ShellQuote(w.Args[0])+" --version"),
			"It must not be newer than the API server, and may be one minor version older. See its version:"),
			"the API server is %s; neither the scheduler's metrics nor the tag of its image %s name its version",
			server, text.Excerpt(w.Image))
	}
	message := fmt.Sprintf("the scheduler is of Kubernetes %s, the API server of %s", scheduler, server)
	if w != nil {
		message += ", image " + text.Excerpt(w.Image)
	}
	compared, err := skew.Compare(scheduler, server)
	switch {
	case err != nil:
		return warn(run("", "Compare the versions yourself: the scheduler must not be newer, and may be one minor version older."),
			"%s: %s", message, oneLine(err))
	case compared.Problem == "":
		return ok("%s", message)
	case compared.Behind > 0:
		return warn(adviseImage(compared.Advice, skew.Minor(server), w), "%s: %s", message, compared.Problem)
	}
	return fail(adviseImage(compared.Advice, skew.Minor(server), w), "%s: %s", message, compared.Problem)
}

// checkCommand compares the scheduler's version with that of this program, which simulates it.
func (f *facts) checkCommand() []Check {
	other := skew.OtherCommand(skew.Minor(f.command), skew.Minor(f.schedulerVersion()))
	if f.schedulerVersion() == "" || other == "" {
		return nil
	}
	return warn(run(f.workload().DoctorCommand(), "Use the one in the scheduler's pod:"), "%s", other)
}

// adviseImage says how the scheduler gets the image for a minor version of Kubernetes.
func adviseImage(text, minor string, w *live.Workload) []Advice {
	if w == nil {
		return run("", "%s", text)
	}
	image := cmp.Or(skew.ImageOfMinor(w.Image, minor), "IMAGE")
	switch {
	case w.OfOperator():
		patch := live.ShellQuote(fmt.Sprintf(`{"spec":{"schedulerImage":%q}}`, image))
		return run(fmt.Sprintf("kubectl -n %s patch secondaryscheduler cluster --type=merge -p %s", live.ShellQuote(w.Namespace), patch),
			"%s In the SecondaryScheduler, set spec.schedulerImage:", text)
	case w.Kind != "Deployment":
		container := map[string]any{"name": w.Container, "image": image}
		return write(marshal(map[string]any{"spec": map[string]any{"containers": []any{container}}}),
			"%s Write the image into the patch of the static pod on each control-plane node. Apply it as manifests/default-scheduler says:",
			text)
	}
	set := fmt.Sprintf("kubectl -n %s set image deployment/%s %s", live.ShellQuote(w.Namespace), live.ShellQuote(w.Name),
		live.ShellQuote(w.Container+"="+image))
	if w.Release == "" {
		return run(set, "%s", text)
	}
	return append(
		run(w.HelmCommand(""), "%s The chart chooses it by the cluster's version, unless its value image.tag is set:", text),
		run(set, "If Helm did not install it:")...)
}

package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	stock "k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/descriptor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/refresh"
	"github.com/plimsoll-scheduler/plimsoll/pkg/skew"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus"
)

// readyPods returns how many pods of the scheduler are ready, and the first pod that is not, if any.
func (f *Facts) readyPods(w *cluster.Workload) (ready int, unready *corev1.Pod) {
	for _, pod := range f.Pods {
		switch {
		case pod.Namespace != w.Namespace || !slices.Contains(w.Pods, pod.Name):
		case podutil.IsPodReady(pod):
			ready++
		case unready == nil:
			unready = pod
		}
	}
	return ready, unready
}

func (f *Facts) checkReady() []Result {
	w := f.Workload()
	if w == nil {
		return Skip("not checked, because %s names no running scheduler: name one with --scheduler NAMESPACE/NAME",
			f.Configuration.Origin)
	}
	ready, unready := f.readyPods(w)
	wanted := max(len(w.Pods), int(ptr.Deref(w.Replicas, 0)))
	message := fmt.Sprintf("%d of %s of %s ready", ready, text.Count(wanted, "pod"), w)
	if ready > 0 && ready == wanted {
		return Fine("%s", message)
	}
	message = strings.TrimSuffix(message+"; "+text.Excerpt(w.Failure()), "; ")
	advice := f.adviseNoPods(w)
	if unready != nil {
		advice = append(f.AdviseRun(cluster.DescribeCommand(w.Namespace, "Pod", unready.Name), "See its events:"),
			f.AdviseRun(logsOf(w, "Pod", unready.Name), "See its log:")...)
		if _, c := podutil.GetPodCondition(&unready.Status, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
			message += "; " + unready.Name + " has no node: " + text.Excerpt(c.Message)
		}
		for _, c := range unready.Status.ContainerStatuses {
			if c.State.Waiting != nil {
				message += "; " + unready.Name + " waits: " + text.Excerpt(c.State.Waiting.Reason+" "+c.State.Waiting.Message)
			}
		}
	}
	return failIf(ready == 0)(advice, "%s", message)
}

func (f *Facts) adviseNoPods(w *cluster.Workload) []Advice {
	switch {
	case w.Replicas != nil && *w.Replicas == 0:
		return f.AdviseRun(cluster.Kubectl("-n", w.Namespace, "scale", "deployment", w.Name, "--replicas=2"),
			"It has 0 replicas. Start it:")
	case strings.Contains(w.Failure(), "insufficient quota to match these scopes"):
		return f.adviseValues("Create a ResourceQuota for the pods' priority class", "priorityQuota.enabled=true")
	}
	return f.AdviseRun(cluster.DescribeCommand(w.Namespace, w.Kind, w.Name), "See why pods are missing:")
}

// checkRestarted finds pods that started before the configuration was written: a scheduler reads it only when it starts.
func (f *Facts) checkRestarted() []Result {
	w := f.Workload()
	if w == nil || f.Configuration.Changed.IsZero() {
		return nil
	}
	var stale []string
	for _, pod := range f.Pods {
		for _, c := range pod.Status.ContainerStatuses {
			if pod.Namespace == w.Namespace && slices.Contains(w.Pods, pod.Name) && c.Name == w.Container && c.State.Running != nil &&
				c.State.Running.StartedAt.Add(2*time.Second).Before(f.Configuration.Changed) { // clocks differ, and times are in seconds
				stale = append(stale, pod.Name)
			}
		}
	}
	if len(stale) == 0 {
		return Fine("the configuration has not changed since the scheduler started")
	}
	return Warn(f.AdviseRun(w.RestartCommand(), "Restart the scheduler, so that it reads the configuration that is checked here:"),
		"the configuration was written %s ago, after these pods started, which still run with the one before: %s",
		rounded(f.serverTime().Sub(f.Configuration.Changed)), text.FirstN(stale))
}

// checkImage finds a stock scheduler in place of Plimsoll, by its metrics or, without metrics, by its image.
func (f *Facts) checkImage() []Result {
	w := f.Workload()
	if w == nil || f.hasMetric("plimsoll_") {
		return nil
	}
	hasMetrics := f.hasMetric(buildInfo)
	if !hasMetrics && !skew.IsStockImage(w.Image) {
		return nil
	}
	verb := map[bool]string{true: "runs", false: "seems to run"}[hasMetrics]
	return failIf(hasMetrics)(adviseImage("Run the image of Plimsoll for Kubernetes "+skew.Minor(f.server.GitVersion)+"."),
		"%s %s the stock scheduler, which has no plugin that reads load: image %s", w, verb, text.Excerpt(w.Image))
}

func (f *Facts) hasMetric(prefix string) bool {
	return slices.ContainsFunc(f.metrics, func(sample *model.Sample) bool {
		return strings.HasPrefix(string(sample.Metric[model.MetricNameLabel]), prefix)
	})
}

// ofScheduler drops a Prometheus' samples of other schedulers and other components, as far as labels tell them apart.
func (f *Facts) ofScheduler(metrics model.Vector) model.Vector {
	w := f.Workload()
	return slices.DeleteFunc(metrics, func(sample *model.Sample) bool {
		pod, namespace := string(sample.Metric["pod"]), string(sample.Metric["namespace"])
		if w == nil || pod == "" {
			return !strings.HasPrefix(string(sample.Metric[model.MetricNameLabel]), "plimsoll_")
		}
		return !slices.Contains(w.Pods, pod) || namespace != "" && namespace != w.Namespace
	})
}

// buildInfo is a metric of every Kubernetes component, labeled with its version. Plimsoll's scheduler has refresh.BuildInfo too.
const buildInfo = "kubernetes_build_info"

// logsOf returns the command that shows the scheduler's log in a pod or workload.
func logsOf(w *cluster.Workload, kind, name string) cluster.Command {
	return cluster.Kubectl("-n", w.Namespace, "logs", strings.ToLower(kind)+"/"+name, "--tail=20", "-c",
		cmp.Or(w.Container, "kube-scheduler"))
}

// adviseLog advises to read the scheduler's log. reason has no period.
func (f *Facts) adviseLog(reason string) []Advice {
	if w := f.Workload(); w != nil {
		return f.AdviseRun(logsOf(w, w.Kind, w.Name), "%s:", reason)
	}
	return Advise("%s.", reason)
}

// leading reports whether the scheduler has ready pods and a leader, as far as known.
func (f *Facts) leading() bool {
	failed := func(c Result) bool { return c.Status == Error }
	return !slices.ContainsFunc(f.checkReady(), failed) &&
		(f.NeedConfiguration() != nil || !slices.ContainsFunc(f.checkLeader(), failed))
}

// checkSingleReplica checks that a scheduler without leader election has one replica. A rollout has more for a while.
func (f *Facts) checkSingleReplica(w *cluster.Workload) []Result {
	ready, _ := f.readyPods(w)
	if ready < 2 || w.Replicas != nil && *w.Replicas < 2 {
		return Fine("leader election is disabled")
	}
	advice := Advise("Remove --leader-elect=false from the scheduler's command line.")
	if !f.Configuration.Decoded.LeaderElection.LeaderElect {
		advice = f.adviseEdit("leaderElection:\n  leaderElect: true\n"+leaseYAML(w, ""), "let one of them lead:", "")
	}
	return Fail(advice, "leader election is disabled, and %d pods of %s place the same pods", ready, w)
}

// leaseYAML names a Lease that only this scheduler has.
func leaseYAML(w *cluster.Workload, suffix string) string {
	return fmt.Sprintf("  resourceName: %s%s\n  resourceNamespace: %s\n", w.Name, suffix, w.Namespace)
}

// adviseHolder advises to stop the process that holds the scheduler's Lease, or to choose another Lease.
func (f *Facts) adviseHolder(w *cluster.Workload, holder, suffix string) []Advice {
	edit := f.adviseEdit("leaderElection:\n"+leaseYAML(w, suffix),
		"choose a Lease that the scheduler's Role names, too:", "If both should run,")
	i := slices.IndexFunc(f.Pods, func(pod *corev1.Pod) bool { return pod.Name == holder })
	if i < 0 { // a process, or a pod in its machine's network such as a control plane's scheduler
		return append(edit, Advise("If not, stop the scheduler that runs on the machine %s.", holder)...)
	}
	see := cluster.DescribeCommand(f.Pods[i].Namespace, "Pod", holder)
	return append(f.AdviseRun(see, "Stop the other scheduler. See its pod:"), edit...)
}

func (f *Facts) checkLeader() []Result {
	w, election := f.Workload(), f.Election()
	switch {
	case w == nil:
		return nil
	case !election.LeaderElect:
		return f.checkSingleReplica(w)
	}
	name := election.ResourceNamespace + "/" + election.ResourceName
	advice := f.AdviseRun(logsOf(w, w.Kind, w.Name), "See in its log what it waits for:")
	if len(w.Pods) == 0 {
		advice = f.adviseNoPods(w)
	}
	switch {
	case apierrors.IsNotFound(f.leaseErr):
		return Fail(advice, "no leader yet: there is no Lease %s", name)
	case f.leaseErr != nil:
		return Warn(Advise("Run this as a user with permission to get leases."), "the Lease %s could not be read: %s", name,
			OneLine(f.leaseErr))
	}
	spec, holder := f.lease.Spec, f.holder()
	duration := time.Duration(ptr.Deref(spec.LeaseDurationSeconds, int32(election.LeaseDuration.Seconds()))) * time.Second
	age := max(f.serverTime().Sub(ptr.Deref(spec.RenewTime, metav1.MicroTime{}).Time), 0)
	switch {
	case holder == "":
		return Fail(advice, "no leader: Lease %s has been released", name)
	case age > 2*duration:
		if len(w.Pods) > 0 {
			advice = append(advice, f.adviseRestart("If it hangs")...)
		}
		return Fail(advice, "no leader: Lease %s was renewed %s ago, for %s", name, rounded(age), duration)
	case !slices.Contains(w.Pods, holder) && w.Kind == "Deployment":
		suffix := map[bool]string{true: "-2"}[name == w.Namespace+"/"+w.Name]
		return Warn(f.adviseHolder(w, holder, suffix), "Lease %s is held by %s, which is not a pod of %s", name, holder, w)
	}
	return Fine("%s leads; it renewed Lease %s %s ago", holder, name, rounded(age))
}

// holder is cluster.HolderOf the scheduler's Lease; empty if the Lease is unknown.
func (f *Facts) holder() string {
	if f.lease == nil {
		return ""
	}
	return cluster.HolderOf(f.lease)
}

// schedulerVersion returns the Kubernetes version in the scheduler's metrics or, without metrics, the minor one in its image tag.
func (f *Facts) schedulerVersion() string {
	w := f.Workload()
	labels := map[model.LabelValue]model.LabelName{buildInfo: "git_version", refresh.BuildInfo: "kubernetes"}
	versions := map[string]bool{}
	for _, sample := range f.metrics {
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

func (f *Facts) checkVersion() []Result {
	w, scheduler, server := f.Workload(), f.schedulerVersion(), f.server.GitVersion
	if scheduler == "" {
		return nil
	}
	message := fmt.Sprintf("the scheduler is built from Kubernetes %s; the API server runs %s", scheduler, server)
	if w != nil {
		message += ", image " + text.Excerpt(w.Image)
	}
	compared, err := skew.Compare(scheduler, server)
	switch {
	case err != nil:
		return Warn(Advise("Compare the versions yourself: the scheduler must not be newer, and may be one minor version older."),
			"%s: %s", message, OneLine(err))
	case compared.Problem == "":
		return Fine("%s", message)
	}
	return failIf(compared.Behind < 0)(adviseImage(compared.Advice), "%s: %s", message, compared.Problem)
}

// checkCommand compares the scheduler's version with that of this program, which simulates it.
func (f *Facts) checkCommand() []Result {
	if other := skew.OtherCommand(skew.Minor(f.commandVersion), skew.Minor(f.schedulerVersion())); other != "" {
		return Warn(f.adviseInPod("Use the one in the scheduler's pod:"), "%s", other)
	}
	return nil
}

// adviseImage advises how to set the image. todo is a sentence.
func adviseImage(todo string) []Advice {
	return Advise("%s Set it in the chart by image.repository and image.tag, for OpenShift's operator by spec.schedulerImage.", todo)
}

// readMetrics reads the scheduler's metrics from its own port, through the API server's proxy, or from a Prometheus.
func (g *gatherer) readMetrics(ctx context.Context) {
	promql := fmt.Sprintf("{__name__=~%q}", strings.Join([]string{
		refresh.BuildInfo, refresh.LoadNodes, refresh.RefreshTotal, refresh.PanicsTotal, refresh.Workloads, refresh.WorkloadsAge,
		refresh.HistoryRead, descriptor.DecisionsTotal, descriptor.FallbackTotal,
	}, "|"))
	if w := g.Workload(); w != nil {
		pods := strings.Join(text.Each(w.Pods, regexp.QuoteMeta), "|")
		promql += fmt.Sprintf(" or {__name__=~%q,namespace=%q,pod=~%q}", buildInfo+"|("+pluginSeconds+"|"+pointSeconds+")_(sum|count)",
			w.Namespace, pods)
		var pod string
		g.metrics, pod, g.metricsErr = g.conn.Metrics(ctx, w, g.inPod, g.holder())
		g.metricsFrom = "pod " + pod
	}
	for _, s := range g.sources {
		p, ok := s.Source.Source.(*prometheus.Source)
		if !ok || s.needAnswer() != nil || g.metrics != nil {
			continue
		}
		series, err := p.Series(ctx, promql)
		if series = g.ofScheduler(series); err == nil && len(series) > 0 {
			g.metrics, g.metricsFrom, g.metricsErr = series, "Prometheus", nil
		}
	}
}

// counts are a metric's values by a name, and by the value of one label.
type counts map[string]map[string]float64

// countsOf combines the metric's samples with add. The name joins the values of labels, and by is the other label.
func (f *Facts) countsOf(metric string, add func(a, b float64) float64, by model.LabelName, labels ...model.LabelName) counts {
	all := counts{}
	for _, sample := range f.metrics {
		if string(sample.Metric[model.MetricNameLabel]) != metric {
			continue
		}
		valueOf := func(label model.LabelName) string { return text.Excerpt(string(sample.Metric[label])) }
		key, value := strings.Join(text.Each(labels, valueOf), ": "), valueOf(by)
		if all[key] == nil {
			all[key] = map[string]float64{}
		}
		all[key][value] = add(all[key][value], float64(sample.Value))
	}
	return all
}

func sum(a, b float64) float64 { return a + b }

func (f *Facts) checkMetrics() []Result {
	if f.metricsErr == nil {
		return nil
	}
	return Warn(f.adviseMetrics(f.Workload()), "the scheduler's metrics could not be read: %s", OneLine(f.metricsErr))
}

func (f *Facts) adviseMetrics(w *cluster.Workload) []Advice {
	if f.inPod {
		return f.adviseGrant("Grant the permission to the scheduler's account",
			[]cluster.Permission{{Path: "/metrics", Verbs: []string{"get"}}}, w.User())
	}
	return append(f.AdviseRun(w.DoctorCommand(), "Check in the scheduler's pod, which can read them:"),
		f.adviseValues("Or let Prometheus scrape the scheduler, with a Secret for the certificate of its port",
			"serviceMonitor.enabled=true", "servingCertificate.secretName=SECRET")...)
}

// checkLoadStates checks how old the load is that the running scheduler has.
func (f *Facts) checkLoadStates() []Result {
	nodes := f.countsOf(refresh.LoadNodes, math.Max, "state", "source", "resource") // replicas have equal values
	return each(sortedKeys(nodes), func(name string) []Result {
		n := nodes[name]
		message := fmt.Sprintf("%s fresh on %.0f, expired on %.0f, absent on %.0f nodes", name, n["Fresh"], n["Expired"], n["Absent"])
		if n["Fresh"]+n["Expired"]+n["Absent"] == 0 {
			return Skip("not checked, because the scheduler has looked at no node yet: %s", name)
		}
		if n["Expired"]+n["Absent"] == 0 {
			return Fine("%s", message)
		}
		return failIf(n["Fresh"] == 0)(
			f.adviseInPod("Fix what the groups source, nodes and time find. If they find nothing, check in the scheduler's pod what it "+
				"reaches:"),
			"the scheduler's metrics, from %s, say %s", f.metricsFrom, message)
	})
}

// failureThreshold is the fraction of failures above which a check warns.
const failureThreshold = 0.1

// checkRefreshes checks that most refreshes of each source succeeded, and that none panicked.
func (f *Facts) checkRefreshes() []Result {
	panics := f.countsOf(refresh.PanicsTotal, sum, "", "source")
	results := f.countsOf(refresh.RefreshTotal, sum, "result", "source")
	return each(sortedKeys(results), func(name string) []Result {
		failed := results[name]["Error"]
		all := failed + results[name]["Success"]
		message := fmt.Sprintf("%s: %.0f of %.0f refreshes failed since the scheduler started", name, failed, all)
		switch n := panics[name][""]; {
		case n > 0:
			return Warn(f.adviseLog("The scheduler's log has the stack. Please report it"),
				"%s: %.0f refreshes panicked since the scheduler started; the load that was read before stayed in use", name, n)
		case all == 0:
			return Skip("not checked, because the scheduler has not refreshed the load of %s yet", name)
		case failed > 1 && failed > failureThreshold*all:
			return Warn(f.adviseLog("If the source answers now, the scheduler's log says why refreshes failed"), "%s", message)
		}
		return Fine("%s", message)
	})
}

// staleStatistics is the age of the newest observation above which a check warns, as the chart's alert does.
const staleStatistics = 6 * refresh.WorkloadInterval

// checkKnownWorkloads checks that the running scheduler updates the statistics of workloads.
func (f *Facts) checkKnownWorkloads() []Result {
	known := f.countsOf(refresh.Workloads, math.Max, "", "source") // replicas have equal values
	ages := f.countsOf(refresh.WorkloadsAge, math.Max, "", "source")
	past := f.countsOf(refresh.HistoryRead, math.Max, "", "source")
	return each(sortedKeys(known), func(name string) []Result {
		message := fmt.Sprintf("%s: statistics of %s", name, text.Count(int(known[name][""]), "workload"))
		if read, ok := past[name][""]; ok {
			message += fmt.Sprintf(", with %.0f %% of the past", 100*read)
		}
		age := time.Duration(ages[name][""] * float64(time.Second))
		switch {
		case age <= staleStatistics && known[name][""] == 0:
			return Skip("not checked, because the scheduler has read the usage of no workload from %s yet", name)
		case age <= staleStatistics:
			return Fine("%s", message)
		}
		return Warn(f.adviseLog("The scheduler's log says why the usage of pods cannot be read"),
			"%s; the newest observation is %s old", message, age.Round(time.Second))
	})
}

// checkFallbacks checks how many placements a plugin decided without load. It leaves out plugins that decided none.
func (f *Facts) checkFallbacks() []Result {
	decisions := f.countsOf(descriptor.DecisionsTotal, sum, "", "plugin")
	known := len(decisions) > 0
	maps.DeleteFunc(decisions, func(_ string, of map[string]float64) bool { return of[""] == 0 })
	if known && len(decisions) == 0 {
		return Skip("not checked, because no plugin has decided a placement yet")
	}
	fallbacks := f.countsOf(descriptor.FallbackTotal, sum, "reason", "plugin")
	return each(sortedKeys(decisions), func(plugin string) []Result {
		total, reasons := 0.0, []string(nil)
		for _, reason := range sortedKeys(fallbacks[plugin]) {
			total += fallbacks[plugin][reason]
			reasons = append(reasons, fmt.Sprintf("%s %.0f", reason, fallbacks[plugin][reason]))
		}
		message := fmt.Sprintf("%s decided %.0f of %.0f placements without load", plugin, total, decisions[plugin][""])
		if total <= failureThreshold*decisions[plugin][""] {
			return Fine("%s", message)
		}
		return Warn(f.adviseLog("If the groups source, nodes and time find nothing, run doctor again in ten minutes. If the count has "+
			"grown, see the scheduler's log"), "%s since the scheduler started: %s", message, strings.Join(reasons, ", "))
	})
}

// Names of the scheduler's histograms, which Kubernetes does not export.
const (
	pluginSeconds = stock.SchedulerSubsystem + "_plugin_execution_duration_seconds"
	pointSeconds  = stock.SchedulerSubsystem + "_framework_extension_point_duration_seconds"
)

// checkSpeed finds stock plugins that take more than a third of the time in which nodes are chosen, where others answer the same.
// Kubernetes measures plugins in a tenth of all cycles, and drops what comes too fast. So their means count for all cycles.
func (f *Facts) checkSpeed() []Result {
	const tooMuch, enough = 1.0 / 3, 10
	histogram := func(name string, label model.LabelName) (seconds, runs counts) {
		return f.countsOf(name+"_sum", sum, "extension_point", label), f.countsOf(name+"_count", sum, "extension_point", label)
	}
	seconds, runs := histogram(pointSeconds, "profile")
	taken, measured := histogram(pluginSeconds, "plugin")
	return each(plugins.All(), func(d descriptor.Descriptor) []Result {
		profiles, all, own := []string(nil), 0.0, 0.0
		for _, profile := range f.Configuration.Decoded.Profiles {
			if !configlint.Builds(&profile, d.Replaces) {
				continue
			}
			name := profile.SchedulerName
			profiles = append(profiles, name)
			for _, point := range []string{stock.PreFilter, stock.Filter, stock.PostFilter, stock.PreScore, stock.Score} {
				all += seconds[name][point]
				if strings.HasPrefix(point, "Pre") { // Filter and Score look at several nodes at a time
					own += runs[name][point] * taken[d.Replaces][point] / max(measured[d.Replaces][point], 1)
				}
			}
		}
		message := fmt.Sprintf("%s takes %.0f %% of the time in which nodes are chosen", d.Replaces, 100*own/all)
		switch {
		case all == 0:
			return nil
		case measured[d.Replaces][stock.PreFilter] < enough:
			return Skip("not checked, because %s has not been measured in %d decisions yet", d.Replaces, enough)
		case own <= tooMuch*all:
			return Fine("%s", message)
		}
		yaml := fmt.Sprintf("plugins:\n  multiPoint:\n    disabled:\n    - name: %s\n    enabled:\n    - name: %s\n      weight: %d\n",
			d.Replaces, d.Name, configlint.StockWeight(d.Replaces))
		return Warn(f.adviseEdit(yaml, "replace the stock plugin (profile "+text.FirstN(profiles)+") and its name in pluginConfig:",
			"%s gives the same answers faster.", d.Name), "%s since the scheduler started", message)
	})
}

// A pod that waits for longer than patience is overdue. A scheduler that looks at no pod for longer than hanging hangs.
const patience, hanging = 10 * time.Second, time.Minute

// queue has the pods with one schedulerName.
type queue struct {
	// unseen are pods that have waited longer than patience without a look.
	unseen []string
	// schedulerOnly reports whether one of them waits for the scheduler only. It has no volume and no claim, and had no gate.
	schedulerOnly bool
	// since is when the oldest of them was created. If schedulerOnly is true, others do not count.
	since time.Time
	// lastAttempt is when a scheduler last looked at any pod of the name; zero if it never did.
	lastAttempt time.Time
}

// checkWaiting checks for pods that no scheduler looks at.
func (f *Facts) checkWaiting() []Result {
	queues, total := f.queues()
	results := each(sortedKeys(queues), func(name string) []Result { return f.checkQueue(name, queues) })
	if len(results) == 0 {
		return Fine("no pod waits for a scheduler that is not running (%s for other reasons)", text.Count(total, "pod"))
	}
	return results
}

func (f *Facts) checkQueue(name string, queues map[string]*queue) []Result {
	q := queues[name]
	if len(q.unseen) == 0 {
		return nil
	}
	message := fmt.Sprintf("%s for scheduler %q, and no scheduler has looked: %s", text.Count(len(q.unseen), "waiting pod"), name,
		text.FirstN(q.unseen))
	own := slices.Contains(f.Profiles(), name)
	profiles, see := f.schedulerOf(name)
	active := slices.MaxFunc([]time.Time{q.since, q.lastAttempt}, time.Time.Compare)
	for _, profile := range profiles { // a scheduler takes the pods of all profiles from one queue
		if other := queues[profile]; other != nil && other.lastAttempt.After(active) {
			active = other.lastAttempt
		}
	}
	waited := f.serverTime().Sub(active)
	switch {
	case own && !f.leading():
		return Fail(f.AdviseRun(see, "Start the scheduler; the pods need no change. See why it is down:"),
			"%s; a profile has this name, but its scheduler is down", message)
	case len(profiles) == 0:
		return f.checkUnknownQueue(name, q, message)
	case waited < hanging, active.After(q.since) && !q.schedulerOnly:
		return nil // they are next, or wait for something else
	case own:
		return Fail(f.adviseRestart("The pods need no change. Start the scheduler; if it runs, it hangs"),
			"%s; a profile has this name, but its scheduler has looked at no pod for %s", message, rounded(waited))
	}
	return Fail(f.AdviseRun(see, "The pods need no change. Start their scheduler; if it runs, it hangs. See its pods:"),
		"%s; its scheduler has looked at no pod for %s", message, rounded(waited))
}

// checkUnknownQueue checks a queue whose scheduler was not found. The scheduler may run elsewhere, and take longer than others.
func (f *Facts) checkUnknownQueue(name string, q *queue, message string) []Result {
	if q.lastAttempt.After(q.since) {
		return nil // they are next, or wait for something else, such as more pods of a group
	}
	similar := append(configlint.SimilarNames(name, f.Profiles()), corev1.DefaultSchedulerName)
	todo := "Start scheduler " + name + ", which the pods may need for devices. Or write"
	if len(similar) > 1 {
		message += fmt.Sprintf("; did you mean %q?", similar[0])
		todo = "Write"
	}
	const columns = "custom-columns=NAMESPACE:.metadata.namespace,POD:.metadata.name," +
		"OWNER:.metadata.ownerReferences[*].kind,NAME:.metadata.ownerReferences[*].name"
	selector := "spec.nodeName=,spec.schedulerName=" + name
	advice := f.AdviseRun(cluster.Kubectl("get", "pods", "-A", "--field-selector", selector, "-o", columns),
		"%s schedulerName: %s into the templates of the pods' owners. Create pods and Jobs anew. See the owners:", todo, similar[0])
	return failIf(f.serverTime().Sub(q.since) >= hanging)(advice, "%s", message)
}

// schedulerOf returns all profiles of the scheduler that has the named one, and the command that shows the scheduler.
// An unknown scheduler has no profiles.
func (f *Facts) schedulerOf(name string) (profiles []string, see cluster.Command) {
	if slices.Contains(f.Profiles(), name) {
		if w := f.Workload(); w != nil {
			see = cluster.DescribeCommand(w.Namespace, w.Kind, w.Name)
		}
		return f.Profiles(), see
	}
	if name == corev1.DefaultSchedulerName {
		return []string{name}, cluster.Kubectl("-n", "kube-system", "get", "pods", "-l", "component=kube-scheduler")
	}
	return nil, ""
}

func (f *Facts) adviseRestart(why string) []Advice {
	if command := f.Configuration.Workload.RestartCommand(); command != "" {
		return f.AdviseRun(command, "%s: save its log, and restart it:", why)
	}
	return Advise("%s: save its log, and restart it.", why)
}

func (f *Facts) serverTime() time.Time { return f.now.Add(f.server.Skew) }

// queues returns the queues by schedulerName, and how many pods wait.
func (f *Facts) queues() (queues map[string]*queue, total int) {
	queues = map[string]*queue{}
	for _, pod := range f.Pods {
		q := cmp.Or(queues[pod.Spec.SchedulerName], &queue{})
		queues[pod.Spec.SchedulerName] = q
		_, condition := podutil.GetPodCondition(&pod.Status, corev1.PodScheduled)
		gated := condition != nil && condition.Reason == corev1.PodReasonSchedulingGated // set by the API server
		if condition != nil && !gated && condition.LastTransitionTime.After(q.lastAttempt) {
			q.lastAttempt = condition.LastTransitionTime.Time
		}
		if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
			continue
		}
		total++
		// Since Kubernetes 1.35, the scheduler nominates the node before it waits for a volume, without a condition.
		seen := condition != nil && !gated || pod.Status.NominatedNodeName != "" || f.groups.Of(pod).Incomplete()
		if !seen && len(pod.Spec.SchedulingGates) == 0 && f.serverTime().Sub(pod.CreationTimestamp.Time) > patience {
			q.addUnseen(pod, !gated && !mayWaitForOthers(pod)) // when a gate was removed is not known
		}
	}
	return queues, total
}

func (q *queue) addUnseen(pod *corev1.Pod, schedulerOnly bool) {
	q.unseen = append(q.unseen, pod.Namespace+"/"+pod.Name)
	created := pod.CreationTimestamp.Time
	if q.since.IsZero() || schedulerOnly && !q.schedulerOnly || schedulerOnly == q.schedulerOnly && created.Before(q.since) {
		q.schedulerOnly, q.since = schedulerOnly, created
	}
}

// mayWaitForOthers reports whether a pod without a condition may wait for a volume or a claim.
func mayWaitForOthers(pod *corev1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 ||
		slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil })
}

// checkGroups finds pod groups that are not placed together, or cannot be placed.
func (f *Facts) checkGroups() []Result {
	var alone []string
	results := each(sortedKeys(f.groups), func(key string) []Result {
		g := f.groups[key]
		switch own := slices.Contains(f.Profiles(), g.First.Spec.SchedulerName); {
		case own && !f.Workload().PlacesGroups():
			alone = append(alone, key)
		case g.Waiting == 0, f.serverTime().Sub(g.First.CreationTimestamp.Time) <= patience:
		case g.Absent:
			return Fail(Advise("Create the PodGroup, or correct spec.schedulingGroup of the pods."), "%s", g)
		case g.Missing > 0:
			return Warn(Advise("Create the missing pods, or lower minCount of the PodGroup."), "%s", g)
		case g.Unplaced != "":
			see := cluster.Plugin("explain", g.First.Name, "-n", g.Namespace)
			return Warn(f.AdviseRun(see, "See how many of its pods fit, and why:"), "%s The scheduler: %s", g, g.Unplaced)
		}
		return nil
	})
	if alone != nil {
		advice := Advise("Add --feature-gates=%s=true to the scheduler's arguments, in the chart by extraArgs.", cluster.GroupsGate)
		results = append(results, Fail(advice, "pods of groups are placed one by one, for the scheduler lacks the feature gate %s: %s",
			cluster.GroupsGate, text.FirstN(alone))...)
	}
	return results
}

// schedulerLabel is on namespaces whose new pods get a scheduler from the chart's admission policy.
const schedulerLabel = "plimsoll.io/scheduler"

// readLabels finds the namespaces with a label without effect, and lists admission policies if there are some.
func (g *gatherer) readLabels(ctx context.Context) {
	g.labeled = slices.DeleteFunc(ListOf[*corev1.Namespace](g.Objects), func(n *corev1.Namespace) bool {
		name := n.Labels[schedulerLabel]
		has := func(pod *corev1.Pod) bool { return pod.Namespace == n.Name && pod.Spec.SchedulerName == name }
		return name == "" || name == corev1.DefaultSchedulerName || slices.ContainsFunc(g.Pods, has)
	})
	for _, version := range []string{"v1", "v1beta1"} { // the second is that of Kubernetes before 1.36
		if len(g.labeled) > 0 && (version == "v1" || apierrors.IsNotFound(g.policiesErr)) {
			var content []byte
			content, g.policiesErr = g.conn.Client.Discovery().RESTClient().Get().
				AbsPath("/apis/admissionregistration.k8s.io", version, "mutatingadmissionpolicies").DoRaw(ctx)
			g.policies = labelSelectors(content)
		}
	}
}

// labelSelectors returns the namespaceSelectors of a list of admission policies that select by the label.
func labelSelectors(list []byte) (selectors []labels.Selector) {
	var policies struct {
		Items []struct {
			Spec struct {
				MatchConstraints struct{ NamespaceSelector *metav1.LabelSelector }
			}
		}
	}
	_ = json.Unmarshal(list, &policies) // without policies, no label is read
	for _, policy := range policies.Items {
		selector, err := metav1.LabelSelectorAsSelector(policy.Spec.MatchConstraints.NamespaceSelector)
		if err != nil {
			continue
		}
		requirements, _ := selector.Requirements()
		if slices.ContainsFunc(requirements, func(r labels.Requirement) bool { return r.Key() == schedulerLabel }) {
			selectors = append(selectors, selector)
		}
	}
	return selectors
}

// checkLabels finds namespaces whose label has no effect: no policy reads it, or it names no profile.
func (f *Facts) checkLabels() []Result {
	return each(f.labeled, func(n *corev1.Namespace) []Result {
		name, profiles := n.Labels[schedulerLabel], f.Profiles()
		message := fmt.Sprintf("namespace %s has the label %s=%s, and no pod with this scheduler", n.Name, schedulerLabel, name)
		switch {
		case slices.ContainsFunc(f.policies, func(selector labels.Selector) bool { return selector.Matches(labels.Set(n.Labels)) }):
			older := func(pod *corev1.Pod) bool {
				return pod.Namespace == n.Name && pod.Spec.SchedulerName == corev1.DefaultSchedulerName
			}
			if !slices.ContainsFunc(f.Pods, older) {
				return nil
			}
			return Warn(f.AdviseRun(cluster.Kubectl("-n", n.Name, "rollout", "restart", "deployment"),
				"Unless the policy excludes them, create the pods anew, such as by:"),
				"%s: a policy reads the label for new pods alone", message)
		case !slices.Contains(profiles, name):
			return Fail(f.AdviseRun(cluster.Kubectl("label", "--overwrite", "namespace", n.Name, schedulerLabel+"="+profiles[0]),
				"Name a profile, and create the pods anew:"), "%s: no profile has this name", message)
		case f.policiesErr != nil && !apierrors.IsNotFound(f.policiesErr):
			return Skip("%s; not checked whether a policy reads the label: %s", message, OneLine(f.policiesErr))
		}
		return Fail(f.adviseValues("Install the policy, and create the pods anew", "admissionPolicy.enabled=true"),
			"%s: no MutatingAdmissionPolicy reads the label", message)
	})
}

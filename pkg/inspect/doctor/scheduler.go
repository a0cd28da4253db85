package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	componentversion "k8s.io/component-base/version"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
	"github.com/plimsoll-scheduler/plimsoll/pkg/skew"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

// checkScheduler checks the scheduler that runs with the configuration.
func (e *examination) checkScheduler(ctx context.Context) {
	if e.configuration == nil {
		return
	}
	w := e.configuration.Workload
	e.leading = true
	if w != nil && w.Name == "" {
		w = nil // only its command line is known
	}
	if w != nil {
		e.checkReplicas(w)
	}
	if e.configuration.Decoded != nil {
		e.checkLeader(ctx, w)
	}
	metrics := e.checkMetrics(ctx, w)
	e.checkVersion(w, metrics)
}

// checkReplicas checks that the scheduler's pods are ready.
func (e *examination) checkReplicas(w *live.Workload) {
	if e.objects == nil {
		return
	}
	ready := 0
	var first *corev1.Pod
	for _, name := range w.Pods {
		pod := e.objects.pod(w.Namespace, name)
		switch {
		case pod == nil:
		case podReady(pod):
			ready++
		case first == nil:
			first = pod
		}
	}
	message := fmt.Sprintf("%d of %s of %s %s/%s ready", ready, text.Count(len(w.Pods), "pod"), w.Kind, w.Namespace, w.Name)
	if ready > 0 && ready == len(w.Pods) {
		e.add(OK, "scheduler.ready", message)
		return
	}
	status := Warning
	if ready == 0 {
		status, e.leading = Error, false
	}
	if first == nil {
		e.add(status, "scheduler.ready", message, Advice{
			Text: "Let it run. This shows why it has no pods, such as 0 replicas:", Command: describeCommand(w.Namespace, w.Kind, w.Name),
		})
		return
	}
	logs := logsCommand(w.Namespace, first.Name) + " -c " + live.ShellQuote(cmp.Or(w.Container, first.Spec.Containers[0].Name))
	for _, c := range first.Status.ContainerStatuses {
		if c.Name != cmp.Or(w.Container, c.Name) {
			continue
		}
		if c.State.Waiting != nil {
			message += fmt.Sprintf("; %s waits: %s %s", first.Name, text.Excerpt(c.State.Waiting.Reason), text.Excerpt(c.State.Waiting.Message))
		}
		if last := c.LastTerminationState.Terminated; last != nil && c.RestartCount > 0 {
			logs += " --previous"
		}
	}
	e.add(status, "scheduler.ready", message,
		Advice{Text: "Its events, or its log, say why:", Command: describeCommand(w.Namespace, "Pod", first.Name)},
		Advice{Text: "The log:", Command: logs})
}

// checkLeader checks that a replica leads.
func (e *examination) checkLeader(ctx context.Context, w *live.Workload) {
	election := e.election()
	if w == nil {
		return
	}
	if !election.LeaderElect {
		e.add(OK, "scheduler.leader", "no leader is elected")
		return
	}
	name := election.ResourceNamespace + "/" + election.ResourceName
	lease, err := e.conn.Client.CoordinationV1().Leases(election.ResourceNamespace).Get(ctx, election.ResourceName, metav1.GetOptions{})
	logs := Advice{Text: "Its log says what it waits for:", Command: logsCommand(w.Namespace, logsOf(w)) + " -c " + live.ShellQuote(cmp.Or(w.Container, "kube-scheduler"))}
	switch {
	case apierrors.IsNotFound(err):
		e.leading = false
		e.add(Error, "scheduler.leader", "nobody has ever led: there is no Lease "+name, logs)
		return
	case err != nil:
		e.add(Warning, "scheduler.leader", "the Lease "+name+" could not be read: "+oneLine(err), Advice{
			Text: "Let a user run this who may get leases, or see for yourself:", Command: fmt.Sprintf("kubectl -n %s get lease %s -o yaml", live.ShellQuote(election.ResourceNamespace), live.ShellQuote(election.ResourceName)),
		})
		return
	}
	holder, renewed, duration := "", time.Time{}, election.LeaseDuration.Duration
	if lease.Spec.HolderIdentity != nil {
		holder, _, _ = strings.Cut(text.Excerpt(*lease.Spec.HolderIdentity), "_")
	}
	if lease.Spec.RenewTime != nil {
		renewed = lease.Spec.RenewTime.Time
	}
	if lease.Spec.LeaseDurationSeconds != nil {
		duration = time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
	}
	now := time.Now()
	if e.server.known {
		now = now.Add(e.server.skew)
	}
	age := max(now.Sub(renewed), 0)
	switch {
	case holder == "" || age > 2*duration:
		e.leading = false
		message := fmt.Sprintf("nobody leads: Lease %s was renewed %s ago, for %s", name, shownDuration(age), duration)
		if holder == "" {
			message = "nobody leads: Lease " + name + " has been released"
		}
		e.add(Error, "scheduler.leader", message, logs)
	case !slices.Contains(w.Pods, holder) && w.Kind == "Deployment":
		e.add(Warning, "scheduler.leader", fmt.Sprintf("%s leads, which is no pod of %s %s/%s: Lease %s", holder, w.Kind, w.Namespace, w.Name, name), Advice{
			Text: fmt.Sprintf("If another scheduler, such as the stopgap, has the same Lease, remove that one; or give this one a Lease of its own in %s:", e.configuration.Origin),
			YAML: fmt.Sprintf("leaderElection:\n  resourceName: %s\n  resourceNamespace: %s\n", w.Name, w.Namespace),
		})
	default:
		e.add(OK, "scheduler.leader", fmt.Sprintf("%s leads; it renewed Lease %s %s ago", holder, name, shownDuration(age)))
	}
}

func describeCommand(namespace, kind, name string) string {
	return fmt.Sprintf("kubectl -n %s describe %s %s", live.ShellQuote(namespace), strings.ToLower(kind), live.ShellQuote(name))
}

func logsCommand(namespace, object string) string {
	return fmt.Sprintf("kubectl -n %s logs %s --tail=20", live.ShellQuote(namespace), live.ShellQuote(object))
}

func logsOf(w *live.Workload) string {
	if w.Kind == "Deployment" {
		return "deploy/" + w.Name
	}
	return w.Name
}

// checkVersion compares the scheduler's version with the API server's, and with this program's.
func (e *examination) checkVersion(w *live.Workload, metrics model.Vector) {
	scheduler := schedulerVersion(metrics, w)
	switch {
	case scheduler != "":
		e.addAll(versionChecks(scheduler, e.server.gitVersion, componentversion.Get().GitVersion, w))
	case w != nil:
		e.add(Warning, "scheduler.version", fmt.Sprintf("the API server is %s; neither the scheduler's metrics nor the tag of its image %s name its Kubernetes version",
			e.server.gitVersion, text.Excerpt(w.Image)), Advice{
			Text:    "It must not be newer than the API server, and may be one minor version older. See which it is:",
			Command: w.ExecCommand(live.ShellQuote(w.Args[0]) + " --version"),
		})
	}
}

// schedulerVersion returns the Kubernetes version of the scheduler by its metrics; failing that, the minor version by the tag of its
// image. It is empty if neither is known.
func schedulerVersion(metrics model.Vector, w *live.Workload) string {
	labels := map[model.LabelValue]model.LabelName{"kubernetes_build_info": "git_version", "plimsoll_build_info": "kubernetes"}
	versions := map[string]bool{}
	for _, sample := range metrics {
		// Prometheus has the metrics of other schedulers too.
		if pod := string(sample.Metric["pod"]); pod != "" && w != nil && !slices.Contains(w.Pods, pod) {
			continue
		}
		if label, ok := labels[sample.Metric[model.MetricNameLabel]]; ok {
			versions[text.Excerpt(string(sample.Metric[label]))] = true
		}
	}
	if len(versions) == 1 {
		return sortedKeys(versions)[0]
	}
	if w != nil {
		return skew.MinorOfImage(w.Image)
	}
	return ""
}

// versionChecks compares the Kubernetes version of the scheduler with those of the API server and of this program, the command.
func versionChecks(scheduler, server, command string, w *live.Workload) []Check {
	const id = "scheduler.version"
	message := fmt.Sprintf("the scheduler is of Kubernetes %s, the API server of %s", scheduler, server)
	if w != nil {
		message += ", image " + text.Excerpt(w.Image)
	}
	check := newCheck(OK, id, message)
	compared, err := skew.Compare(scheduler, server)
	if err != nil {
		check = newCheck(Warning, id, message+": "+oneLine(err), Advice{Text: "Compare the versions yourself: the scheduler must not be newer, and may be one minor version older."})
	} else if compared.Problem != "" {
		status := Error
		if compared.Behind > 0 {
			status = Warning
		}
		check = newCheck(status, id, message+": "+compared.Problem, adviseImage(compared.Advice, skew.Minor(server), w)...)
	}
	checks := []Check{check}
	if other := skew.OtherCommand(skew.Minor(command), skew.Minor(scheduler)); other != "" {
		checks = append(checks, newCheck(Warning, "scheduler.command", other, Advice{Text: "Use the one in the scheduler's pod:", Command: execCommand(w)}))
	}
	return checks
}

// adviseImage says how the scheduler gets the image for a minor version of Kubernetes. text says why.
func adviseImage(text, minor string, w *live.Workload) []Advice {
	if w == nil {
		return []Advice{{Text: text}}
	}
	image := cmp.Or(skew.ImageOfMinor(w.Image, minor), "IMAGE")
	switch {
	case w.OfOperator():
		return []Advice{{
			Text: text + " In the SecondaryScheduler, set spec.schedulerImage:",
			Command: fmt.Sprintf("kubectl -n %s patch secondaryscheduler cluster --type=merge -p %s", live.ShellQuote(w.Namespace),
				live.ShellQuote(fmt.Sprintf(`{"spec":{"schedulerImage":%q}}`, image))),
		}}
	case w.Kind != "Deployment":
		return []Advice{{Text: text + " On each control-plane node, write the image into the patch of the static pod, and apply the patch as manifests/default-scheduler says:", YAML: marshal(map[string]any{
			"spec": map[string]any{"containers": []any{map[string]any{"name": w.Container, "image": image}}},
		})}}
	}
	set := Advice{
		Text:    text,
		Command: fmt.Sprintf("kubectl -n %s set image deployment/%s %s", live.ShellQuote(w.Namespace), live.ShellQuote(w.Name), live.ShellQuote(w.Container+"="+image)),
	}
	if w.Release == "" {
		return []Advice{set}
	}
	set.Text = "If Helm did not install it:"
	return []Advice{{Text: text + " The chart chooses it by the cluster's version, unless its value image.tag is set:", Command: helmCommand(w, "")}, set}
}

// checkMetrics checks what the scheduler's metrics say, and returns them.
func (e *examination) checkMetrics(ctx context.Context, w *live.Workload) model.Vector {
	metrics, from, err := e.readMetrics(ctx, w)
	if err != nil {
		if w != nil {
			e.add(Warning, "scheduler.metrics", "the scheduler's metrics could not be read: "+oneLine(err), e.adviseMetrics(w, err)...)
		}
		return nil
	}
	if metrics == nil {
		return nil
	}
	e.addAll(metricChecks(metrics, from))
	return metrics
}

// adviseMetrics says how to read the scheduler's metrics.
func (e *examination) adviseMetrics(w *live.Workload, err error) []Advice {
	if inPodOf(e.conn, w) {
		rule := marshal(map[string]any{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": "plimsoll-may-read-metrics"},
			"rules": []any{map[string]any{"nonResourceURLs": []string{"/metrics"}, "verbs": []string{"get"}}},
		}) + "---\n" + marshal(map[string]any{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": map[string]any{"name": "plimsoll-may-read-metrics"},
			"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "plimsoll-may-read-metrics"},
			"subjects": []any{map[string]any{"kind": "ServiceAccount", "namespace": w.Namespace, "name": w.ServiceAccount}},
		})
		if errors.Is(err, errForbidden) {
			return []Advice{{Text: "Let the scheduler's account read them; write this to a file, and kubectl apply -f FILE:", YAML: rule}}
		}
		return []Advice{{Text: "Look at the log:", Command: logsCommand(w.Namespace, logsOf(w))}}
	}
	return []Advice{
		{Text: "Check in the scheduler's pod, which may read them:", Command: execCommand(w)},
		{Text: "Or let the Prometheus that load is read from scrape the scheduler too, by the chart's values, with a Secret for the certificate of its port:", Command: helmCommand(w, "--set serviceMonitor.enabled=true --set servingCertificate.secretName=SECRET")},
	}
}

var errForbidden = errors.New("forbidden")

// inPodOf reports whether the program runs in a pod of the workload.
func inPodOf(conn *live.Connection, w *live.Workload) bool {
	host, err := os.Hostname()
	return err == nil && conn.InPod && w != nil && slices.Contains(w.Pods, host)
}

// readMetrics returns the scheduler's metrics and where they were read; neither metrics nor an error if there is nowhere to look.
func (e *examination) readMetrics(ctx context.Context, w *live.Workload) (metrics model.Vector, from string, err error) {
	switch {
	case inPodOf(e.conn, w):
		if metrics, err = readOwnMetrics(ctx, w); err == nil {
			return metrics, "its own port", nil
		}
	case w != nil:
		for _, pod := range w.Pods {
			if metrics, err = e.readThroughProxy(ctx, w, pod); err == nil {
				return metrics, "pod " + pod, nil
			}
		}
	}
	for _, reader := range e.metricsFrom {
		series, seriesErr := reader.Series(ctx, `{__name__=~"plimsoll_(build_info|load_nodes|load_age_seconds|refresh_total|decisions_total|fallback_total)"}`)
		if seriesErr != nil || len(series) == 0 {
			continue
		}
		for _, s := range series {
			sample := &model.Sample{Metric: model.Metric{}, Value: model.SampleValue(s.Value)}
			for name, value := range s.Labels {
				sample.Metric[model.LabelName(name)] = model.LabelValue(value)
			}
			metrics = append(metrics, sample)
		}
		return metrics, "Prometheus", nil
	}
	return nil, "", err
}

const maxMetricsBytes = 16 << 20

// metricsPort returns the port that the scheduler serves its metrics at.
func metricsPort(w *live.Workload) string {
	port, _ := w.Flags().GetInt("secure-port") // every scheduler has the flag
	return strconv.Itoa(port)
}

// readOwnMetrics reads the metrics of the scheduler in the same pod, with the pod's own token.
func readOwnMetrics(ctx context.Context, w *live.Workload) (model.Vector, error) {
	const tokenFile = "/var/run/secrets/kubernetes.io/serviceaccount/token"
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://localhost:"+metricsPort(w)+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	// The certificate is self-signed, and the connection does not leave the pod.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it has been read
	switch resp.StatusCode {
	case http.StatusOK:
		return parseMetrics(source.BoundBody(resp.Body, maxMetricsBytes))
	case http.StatusForbidden, http.StatusUnauthorized:
		return nil, fmt.Errorf("GET /metrics: %s: %w", resp.Status, errForbidden)
	}
	return nil, fmt.Errorf("GET /metrics: %s", resp.Status)
}

// readThroughProxy reads the metrics of a pod through the API server, which passes on no credentials of the user.
func (e *examination) readThroughProxy(ctx context.Context, w *live.Workload, pod string) (model.Vector, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	body, err := e.conn.Client.CoreV1().RESTClient().Get().Namespace(w.Namespace).Resource("pods").
		Name("https:" + pod + ":" + metricsPort(w)).SubResource("proxy").Suffix("metrics").Stream(ctx)
	if err != nil {
		return nil, text.ExcerptError(err)
	}
	defer func() { _ = body.Close() }() // it has been read
	return parseMetrics(source.BoundBody(body, maxMetricsBytes))
}

// parseMetrics returns the samples of a text in the format of Prometheus.
func parseMetrics(text io.Reader) (model.Vector, error) {
	decoder := expfmt.SampleDecoder{
		Dec:  expfmt.NewDecoder(text, expfmt.NewFormat(expfmt.TypeTextPlain)),
		Opts: &expfmt.DecodeOptions{Timestamp: model.Now()},
	}
	var all model.Vector
	for {
		var family model.Vector
		switch err := decoder.Decode(&family); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		}
		all = append(all, family...)
	}
}

// metricChecks returns what the scheduler's own metrics say: what it knows of the nodes, and how often it did without.
func metricChecks(metrics model.Vector, from string) []Check {
	type key struct{ source, resource string }
	states := map[key]map[string]float64{}
	results, decisions, fallbacks := map[string]map[string]float64{}, map[string]float64{}, map[string]map[string]float64{}
	for _, sample := range metrics {
		value := float64(sample.Value)
		label := func(name model.LabelName) string { return text.Excerpt(string(sample.Metric[name])) }
		switch sample.Metric[model.MetricNameLabel] {
		case "plimsoll_load_nodes":
			k := key{label("source"), label("resource")}
			if states[k] == nil {
				states[k] = map[string]float64{}
			}
			states[k][label("state")] = max(states[k][label("state")], value)
		case "plimsoll_refresh_total":
			addTo(results, label("source"), label("result"), value)
		case "plimsoll_decisions_total":
			decisions[label("plugin")] += value
		case "plimsoll_fallback_total":
			addTo(fallbacks, label("plugin"), label("reason"), value)
		}
	}
	if len(states) == 0 && len(decisions) == 0 && len(results) == 0 {
		return []Check{newCheck(Warning, "scheduler.metrics", "the scheduler, by "+from+", has no metrics of Plimsoll", Advice{
			Text: "No profile reads load, or the image is that of the stock scheduler. Compare with the image:", Command: "kubectl get deployments -A -o wide | grep -i scheduler",
		})}
	}
	var checks []Check
	var fine []string
	keys := make([]key, 0, len(states))
	for k := range states {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.resource, b.resource))
	})
	for _, k := range keys {
		n := states[k]
		message := fmt.Sprintf("%s: %s fresh on %.0f, expired on %.0f, absent on %.0f nodes", k.source, k.resource, n["Fresh"], n["Expired"], n["Absent"])
		if n["Expired"]+n["Absent"] == 0 {
			fine = append(fine, message)
			continue
		}
		status := Warning
		if n["Fresh"] == 0 {
			status = Error
		}
		checks = append(checks, newCheck(status, "scheduler.load", "the scheduler's metrics, by "+from+", say "+message, Advice{
			Text: "What the groups source and nodes say mends it. If they are fine, the scheduler does not reach what is reached from here; check in its pod.",
		}))
	}
	if len(fine) > 0 {
		checks = append(checks, newCheck(OK, "scheduler.load", strings.Join(fine, "; ")))
	}
	for _, name := range sortedKeys(results) {
		failed, all := results[name]["Error"], results[name]["Error"]+results[name]["Success"]
		message := fmt.Sprintf("%s: %.0f of %.0f refreshes failed since the scheduler started", name, failed, all)
		const notable = 0.1
		if failed > 1 && failed > notable*all {
			checks = append(checks, newCheck(Warning, "scheduler.refreshes", message, Advice{Text: "What the group source says may mend it. If that is fine, the source fails now and then: see its log."}))
		} else {
			checks = append(checks, newCheck(OK, "scheduler.refreshes", message))
		}
	}
	for _, plugin := range sortedKeys(decisions) {
		checks = append(checks, fallbackCheck(plugin, decisions[plugin], fallbacks[plugin]))
	}
	return checks
}

// fallbackCheck returns the check of the placements in which a plugin did without load.
func fallbackCheck(plugin string, decisions float64, reasons map[string]float64) Check {
	total := 0.0
	var parts []string
	for _, reason := range sortedKeys(reasons) {
		total += reasons[reason]
		parts = append(parts, fmt.Sprintf("%s %.0f", reason, reasons[reason]))
	}
	const id, notable = "scheduler.fallbacks", 0.1
	if decisions == 0 || total <= notable*decisions {
		return newCheck(OK, id, fmt.Sprintf("%s judged %.0f of %.0f placements without load", plugin, total, decisions))
	}
	return newCheck(Warning, id, fmt.Sprintf("%s judged %.0f of %.0f placements without load since the scheduler started: %s", plugin, total, decisions, strings.Join(parts, ", ")), Advice{
		Text: "What the groups source and nodes say mends it. The count goes on from where it is until the scheduler restarts.",
	})
}

func addTo(m map[string]map[string]float64, outer, inner string, value float64) {
	if m[outer] == nil {
		m[outer] = map[string]float64{}
	}
	m[outer][inner] += value
}

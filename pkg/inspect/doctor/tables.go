package doctor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/diagnosis"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
)

// checkTables checks the load that plugins read, whatever the source.
func (s *examinedSource) checkTables(ctx context.Context, cluster *live.Cluster) {
	if len(s.requirements.windows) == 0 {
		return
	}
	if _, ok := s.Reader.(*prometheus.Source); ok {
		s.checkClock()
		s.checkSampling()
		s.checkCapacity()
	}
	if s.Err != nil {
		return
	}
	spec := s.requirements.spec
	spec.Window.Duration = s.requirements.windows[0]
	model, err := cluster.Model(ctx, spec, podusage.ByRequests{})
	if err != nil {
		s.add(Error, "nodes.measured", oneLine(err), Advice{Text: "Do what the message says."})
		return
	}
	table := model.Snapshots().Publisher().Latest().Over(spec.Window.Duration)
	loads := map[string]load.NodeLoad{}
	for _, node := range s.objects.nodes {
		loads[node.Name] = table.Node(node.Name)
	}
	s.addAll(s.tableChecks(loads, time.Now()))
}

// tableChecks returns the checks of the load of all nodes.
func (s *examinedSource) tableChecks(loads map[string]load.NodeLoad, now time.Time) []Check {
	trust := provider.TrustOf(s.requirements.spec)
	var absent, expired, zero, above, steady []string
	var youngest, oldest time.Duration
	oldestNode := ""
	windowed, known := 0, 0
	for _, node := range sortedKeys(loads) {
		l := loads[node]
		missing := true
		for r := range l {
			m := &l[r]
			if !m.Known {
				continue
			}
			missing = false
			age := now.Sub(m.End)
			if known == 0 || age < youngest {
				youngest = age
			}
			if known == 0 || age > oldest {
				oldest, oldestNode = age, node
			}
			known++
			if m.Window > 0 {
				windowed++
			}
			if m.State(now, trust) == load.Expired {
				expired = append(expired, node+" "+load.Resource(r).String())
			}
			if m.Mean == 0 {
				zero = append(zero, node+" "+load.Resource(r).String())
			}
			if m.Mean >= 1 {
				above = append(above, node+" "+load.Resource(r).String())
			}
			if m.Window > 0 && m.StdDev == 0 { // which is how a deviation is kept that was not measured
				steady = append(steady, node+" "+load.Resource(r).String())
			}
		}
		if missing {
			absent = append(absent, node)
		}
	}
	var checks []Check
	add := func(status Status, id, message string, advice ...Advice) {
		checks = append(checks, newCheck(status, id, s.prefix+message, advice...))
	}
	_, isPrometheus := s.Reader.(*prometheus.Source)
	if !isPrometheus {
		checks = append(checks, s.absentChecks(absent, len(loads))...)
	}
	if known == 0 {
		return checks
	}
	ages := fmt.Sprintf("the newest samples of the nodes are %s to %s old; maxAge is %s", shownDuration(youngest), shownDuration(oldest), trust.MaxAge)
	switch {
	case len(expired) > 0:
		advice := Advice{Text: "Find out why the source measures these nodes no more.", Command: ""}
		if isPrometheus {
			advice = Advice{Text: "Find out why Prometheus scrapes these nodes no more; this shows the targets that it cannot scrape:", Command: s.queryCommand("up == 0")}
		}
		add(Error, "time.age", fmt.Sprintf("the load of %s is too old to be trusted, up to %s (%s): %s", text.Count(len(expired), "resource"), shownDuration(oldest), oldestNode, text.FirstN(expired)), advice)
	case oldest > trust.MaxAge/2:
		add(Warning, "time.age", ages+": "+oldestNode+" expires soon", Advice{
			Text: s.inConfiguration() + " trust load for longer, or let the source measure more often:",
			YAML: fmt.Sprintf("maxAge: %s\n", (4 * oldest).Round(time.Second)),
		})
	default:
		add(OK, "time.age", ages)
	}
	if len(zero) > 0 {
		node, _, _ := strings.Cut(zero[0], " ")
		add(Warning, "values.zero", fmt.Sprintf("%s at exactly 0, which no running node is: %s", verb(len(zero), "resource is", "resources are"), text.FirstN(zero)), Advice{
			Text:    "What measures these nodes does not see what runs there. Compare with what the kubelet says, and restart the exporter of the node:",
			Command: fmt.Sprintf("kubectl get --raw %s | grep ^node_", live.ShellQuote("/api/v1/nodes/"+node+"/proxy/metrics/resource")),
		})
	} else {
		add(OK, "values.zero", "no node is at exactly 0")
	}
	if !isPrometheus && len(above) > 0 {
		add(Warning, "values.capacity", fmt.Sprintf("%s at 100 %% of capacity or more: %s", verb(len(above), "resource is", "resources are"), text.FirstN(above)), s.adviseCapacity(strings.Fields(above[0])[0])...)
	}
	switch {
	case isPrometheus:
		checks = append(checks, s.deviationCheck(s.withoutDeviation()))
	case windowed > 0 && len(steady) == windowed:
		checks = append(checks, s.deviationCheck(steady))
	case windowed > 0:
		checks = append(checks, s.deviationCheck(nil))
	}
	return checks
}

// absentChecks returns the check of the nodes without load, for a source that does not tell why.
func (s *examinedSource) absentChecks(absent []string, nodes int) []Check {
	if len(absent) == 0 {
		return []Check{newCheck(OK, "nodes.measured", s.prefix+fmt.Sprintf("the load of all %s is known", text.Count(nodes, "node")))}
	}
	status := Warning
	if len(absent) == nodes {
		status = Error
	}
	advice := Advice{
		Text:    "The source must name these nodes as the cluster does: by name, hostname label or address. These are the names:",
		Command: "kubectl get nodes -L kubernetes.io/hostname -o wide",
	}
	if s.Spec.WatcherAddress == "" && s.Spec.MetricProvider.Type == config.KubernetesMetricsServer {
		advice = Advice{
			Text:    "metrics-server does not reach the kubelets of these nodes. Its log says why:",
			Command: "kubectl -n kube-system logs -l k8s-app=metrics-server --tail=20",
		}
	}
	return []Check{newCheck(status, "nodes.measured", s.prefix+fmt.Sprintf("nodes without load: %d of %d (%s)", len(absent), nodes, text.FirstN(absent)), advice)}
}

// withoutDeviation returns the resources of which a Prometheus has a mean of more nodes than a deviation.
func (s *examinedSource) withoutDeviation() []string {
	type statistic struct {
		resource load.Resource
		window   time.Duration
	}
	deviations := map[statistic]int{}
	for i := range s.diagnosis.Queries {
		if q := &s.diagnosis.Queries[i]; q.Kind == promql.StdDev {
			deviations[statistic{q.Resource, q.Window}] = q.Nodes
		}
	}
	var without []string
	for i := range s.diagnosis.Queries {
		q := &s.diagnosis.Queries[i]
		nodes, asked := deviations[statistic{q.Resource, q.Window}]
		if q.Kind == promql.Mean && q.Fraction == 0 && asked && nodes < q.Nodes {
			without = append(without, fmt.Sprintf("%s on %s", q.Statistic(), text.Count(q.Nodes-nodes, "node")))
		}
	}
	slices.Sort(without)
	return without
}

// deviationCheck returns the check of resources whose mean is known and whose deviation is not.
func (s *examinedSource) deviationCheck(without []string) Check {
	const id = "values.deviation"
	if len(without) == 0 {
		return newCheck(OK, id, s.prefix+"the deviation is known wherever the mean is")
	}
	message := s.prefix + "the deviation is not known, and counts as 0: " + text.FirstN(without)
	if !s.requirements.deviation {
		return newCheck(OK, id, message+"; no plugin that is enabled uses it")
	}
	window := s.requirements.windows[0]
	interval := time.Duration(0)
	for _, sampling := range s.examined.Sampling {
		interval = max(interval, sampling.Interval)
	}
	longer := min(cmp.Or(roundUp(5*interval), 2*window), time.Hour)
	if longer <= window {
		return newCheck(Warning, id, message, Advice{
			Text: fmt.Sprintf("Wait for %s, if these nodes are new. If the query is your own, let it have a value over windows as short as a minute.", window),
		})
	}
	return newCheck(Warning, id, message, Advice{
		Text: "A deviation takes five samples in a window. " + s.inConfiguration() + " take a longer window, or let the source measure more often:",
		YAML: fmt.Sprintf("window: %s\n", longer),
	})
}

// checkCapacity checks that no mean that a Prometheus answers is above capacity.
func (s *examinedSource) checkCapacity() {
	var worst *diagnosis.QueryDiagnosis
	known := false
	for i := range s.diagnosis.Queries {
		q := &s.diagnosis.Queries[i]
		if q.Kind != promql.Mean || q.Fraction > 0 || q.HighestNode == "" {
			continue
		}
		known = true
		if q.Highest > 1 && (worst == nil || q.Highest > worst.Highest) {
			worst = q
		}
	}
	if !known {
		return
	}
	if worst == nil {
		s.add(OK, "values.capacity", "no node is above its capacity")
		return
	}
	if math.IsInf(worst.Highest, 1) {
		s.add(Error, "values.capacity", fmt.Sprintf("%s is infinite on %s, which counts as 100 %%", worst, worst.HighestNode), Advice{
			Text:    "The query divides by zero, such as by a capacity that is not known. See what it returns:",
			Command: s.queryCommand(worst.PromQL),
		})
		return
	}
	message := fmt.Sprintf("%s is above capacity on %s: %.1f %%, which counts as 100 %%", worst, worst.HighestNode, 100*worst.Highest)
	// More than that is not measured, but computed in another unit.
	const percent = 1.5
	if worst.Custom() && worst.Highest > percent {
		key, own := "cpu", ""
		if queries := s.requirements.spec.MetricProvider.Queries; queries != nil {
			if own = queries.CPU; worst.Resource == load.Memory {
				key, own = "memory", queries.Memory
			}
		}
		s.add(Error, "values.capacity", message, Advice{
			Text: "The query seems to be in percent. " + s.inConfiguration() + " divide it by 100, for a fraction of capacity is wanted:",
			YAML: providerYAML("queries", map[string]string{key: "(" + own + "\n) / 100"}),
		})
		return
	}
	s.add(Warning, "values.capacity", message, s.adviseCapacity(worst.HighestNode)...)
}

func (s *examinedSource) adviseCapacity(node string) []Advice {
	return []Advice{{
		Text:    "The node is overloaded, or its capacity is not that of what is measured. Compare with the capacity that the kubelet reports:",
		Command: fmt.Sprintf("kubectl get node %s -o jsonpath='{.status.capacity}'", live.ShellQuote(node)),
	}}
}

// hostOf returns the host name of a URL; empty if it is none.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

func matches(selector, of map[string]string) bool {
	return labels.SelectorFromSet(selector).Matches(labels.Set(of))
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

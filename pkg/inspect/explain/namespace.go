package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
)

// NamespaceExplanation says where the scheduler would place each pod of a namespace now, each alone.
type NamespaceExplanation struct {
	Configuration string `json:"configuration"`
	Namespace     string `json:"namespace"`
	// Total is the number of pods that have not ended. Pods are some of them: those without a node first, then by name.
	Total int           `json:"total"`
	Pods  []PodDecision `json:"pods"`
	Notes []string      `json:"notes"`
}

// PodDecision is the decision on one pod.
type PodDecision struct {
	Pod      Pod      `json:"pod"`
	Profile  string   `json:"profile"`
	Decision Decision `json:"decision"`
	// Placement is set for a pod that has a node.
	Placement *Placement `json:"placement,omitempty"`
}

func (r *NamespaceExplanation) Fits() bool {
	return !slices.ContainsFunc(r.Pods, func(d PodDecision) bool { return len(d.Decision.Nodes) == 0 })
}

func (x *run) namespace(ctx context.Context) (Result, error) {
	name := x.Target.Name
	if x.Compare != nil {
		return nil, errors.New("--node: nodes are compared for one pod; leave it out")
	}
	if x.Namespace != "" && x.Namespace != name {
		return nil, fmt.Errorf("--namespace: %s, but the namespace %s is named too; leave out one", x.Namespace, name)
	}
	if _, err := x.Target.get(ctx, x.connection); err != nil {
		return nil, err
	}
	cluster, err := x.open(ctx)
	if err != nil {
		return nil, err
	}
	all := podsOf(x.objects, name)
	pods, others := x.decidable(all)
	left := 0
	if x.Top > 0 && len(pods) > x.Top {
		pods, left = pods[:x.Top], len(pods)-x.Top
	}
	r := &NamespaceExplanation{Configuration: x.configuration.Origin, Namespace: name, Total: len(all)}
	var usages []explain.ExpectedUsage
	x.measure(ctx, cluster, pods...)
	for i, pod := range pods {
		x.Progress(float64(i) / float64(len(pods)))
		var e *Explanation
		err := cluster.Try(nil, pod, func() (err error) {
			e, err = Explain(ctx, cluster.Scheduler, Options{Pod: x.withScheduler(pod), InCluster: true, Measured: x.usages, Top: 1})
			return err
		})
		if err != nil {
			return nil, err
		}
		usages = append(usages, e.ExpectedUsage...)
		r.Pods = append(r.Pods, PodDecision{Pod: e.Pod, Profile: e.Profile, Decision: e.Decision, Placement: e.Placement})
	}
	if left > 0 {
		r.Notes = append(r.Notes, text.Count(left, "pod")+" left out: --top 0 explains all.")
	}
	if others > 0 {
		note := text.Count(others, "pod") + " of other schedulers left out"
		if x.SchedulerName == "" {
			note += ": --scheduler-name PROFILE explains them too"
		}
		r.Notes = append(r.Notes, note+".")
	}
	r.notePlacements()
	r.Notes = append(r.Notes, x.notesOn(cluster, usages)...)
	return r, nil
}

// notePlacements says of how many pods the usage on their nodes is not known exactly.
func (r *NamespaceExplanation) notePlacements() {
	estimated, twice, by := 0, 0, []string(nil)
	for i := range r.Pods {
		if p := r.Pods[i].Placement; p != nil {
			if p.UsageEstimated {
				estimated++
			}
			if p.QuantilePlugins != nil {
				twice, by = twice+1, append(by, p.QuantilePlugins...)
			}
		}
	}
	if estimated > 0 {
		r.Notes = append(r.Notes,
			"The usage of "+text.Count(estimated, "pod")+" is not measured: what their nodes count of it is estimated.")
	}
	if twice > 0 {
		slices.Sort(by)
		r.Notes = append(r.Notes, fmt.Sprintf(
			"Quantiles of the load still include the pods. So %s counts %s twice on their nodes, and fewer may move.",
			strings.Join(slices.Compact(by), ", "), text.Count(twice, "pod")))
	}
}

// decidable returns the pods that a profile of the configuration decides, and how many it does not. The kubelet runs static pods.
func (x *run) decidable(all []*corev1.Pod) (pods []*corev1.Pod, others int) {
	profiles := x.configuration.ProfileNames()
	for _, pod := range all {
		owner := metav1.GetControllerOfNoCopy(pod)
		switch {
		case owner != nil && owner.Kind == "Node", !slices.Contains(profiles, x.withScheduler(pod).Spec.SchedulerName):
			others++
		default:
			pods = append(pods, pod)
		}
	}
	return pods, others
}

// Print implements Result. It begins with what changes: pods that no node takes, then pods that would go elsewhere, or to a node.
func (r *NamespaceExplanation) Print(p *terminal.Printer) {
	var stuck, moving, staying [][]string
	moves, by := 0, map[string]int{}
	for _, d := range r.Pods {
		row := d.row()
		switch {
		case len(d.Decision.Nodes) == 0:
			stuck = append(stuck, row)
		case d.Placement != nil && !d.Placement.Differs:
			staying = append(staying, row)
		default:
			moving = append(moving, row)
			if d.Placement != nil { // else it waits
				moves++
				by[d.decidedBy()]++
			}
		}
	}
	lead := fmt.Sprintf("%d of %s of namespace %s would go elsewhere now, each by itself",
		moves, text.Count(len(r.Pods), "pod"), r.Namespace)
	for i, plugin := range slices.SortedFunc(maps.Keys(by), func(a, b string) int { return cmp.Or(by[b]-by[a], cmp.Compare(a, b)) }) {
		lead += fmt.Sprintf("%s%d by %s", [...]string{": ", ", "}[min(i, 1)], by[plugin], plugin)
	}
	if stuck != nil {
		lead += fmt.Sprintf(". No node takes %d", len(stuck))
	}
	p.Printf("%s.\nExplained: %d of %s. Configuration: %s\n", lead, len(r.Pods), text.Count(r.Total, "pod"), r.Configuration)
	if rows := slices.Concat(stuck, moving, staying); rows != nil {
		p.Printf("\n")
		terminal.TextTable([]string{"POD", "NODE", "WOULD-GO-TO", "POINTS-BEHIND", "DECIDED-BY"}, rows).Print(p, true)
	}
	for _, note := range r.Notes {
		p.Printf("Note: %s\n", note)
	}
}

func (d *PodDecision) row() []string {
	row := []string{d.Pod.Name, cmp.Or(d.Pod.Node, "-"), firstNames(d.Decision.Nodes), "-", d.decidedBy()}
	p := d.Placement
	switch {
	case len(d.Decision.Nodes) == 0:
		row[2] = "no node"
	case p != nil && !p.Differs:
		row[2], row[3] = "stays", "0"
	}
	switch {
	case p != nil && p.RuledOutBy != "":
		row[3] = "ruled out"
	case p != nil && p.Rank > 0:
		row[3] = strconv.FormatInt(p.Behind, 10)
	}
	return row
}

func (d *PodDecision) decidedBy() string {
	if p := d.Placement; p != nil && p.RuledOutBy != "" {
		return p.RuledOutBy
	}
	together := "-"
	if p := d.Placement; p != nil && p.Differs && len(d.Decision.Nodes) > 0 {
		together = "several plugins together"
	}
	deciding := text.Each(d.Decision.Deciding, func(by Deciding) string { return by.Plugin })
	return cmp.Or(strings.Join(deciding, ", "), together)
}

var _, _, _ Result = &Explanation{}, &NamespaceExplanation{}, &LastDecision{}

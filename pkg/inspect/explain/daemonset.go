package explain

import (
	"context"
	"errors"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	daemonutil "k8s.io/kubernetes/pkg/controller/daemon/util"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/manifest"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

// DaemonSetExplanation lists the nodes that admit the pod of a DaemonSet now. Its controller chooses the node of each pod, so
// nodes are not ranked.
type DaemonSetExplanation struct {
	Configuration string `json:"configuration"`
	Namespace     string `json:"namespace"`
	Name          string `json:"name"`
	Profile       string `json:"profile"`
	Nodes         int    `json:"nodes"`
	// Admitting are the nodes that take its pod, as if they did not have it yet.
	Admitting []DaemonSetNode `json:"admitting"`
	// RuledOut are the nodes that filters rule out, in groups, the largest first.
	RuledOut []RuledOut `json:"ruledOut"`
	// NotSelected are the nodes that the node selector or affinity of the DaemonSet leaves out.
	NotSelected []string `json:"notSelected"`
	Notes       []string `json:"notes"`
}

// DaemonSetNode is a node, and the name of its pod of the DaemonSet; empty if it has none.
type DaemonSetNode struct {
	Name string `json:"name"`
	Pod  string `json:"pod,omitempty"`
}

// Fits implements Result.
func (r *DaemonSetExplanation) Fits() bool { return len(r.RuledOut) == 0 }

// daemonSet explains a DaemonSet on each node. beside has the other objects of its file.
func (x *run) daemonSet(ctx context.Context, d *appsv1.DaemonSet, beside manifest.Manifest) (Result, error) {
	if x.Compare != nil {
		return nil, errors.New("--node: the nodes of a DaemonSet are not ranked; leave it out")
	}
	beside.Workloads, beside.DaemonSets = []*manifest.Workload{manifest.Of(d)}, nil
	pod, notes, err := createPod(ctx, x.connection, x.objects, &beside)
	if err != nil {
		return nil, err
	}
	pod = x.withScheduler(pod)
	if err := checkProfile(x.configuration, pod, x.SchedulerName != ""); err != nil {
		return nil, err
	}
	cluster, err := x.open(ctx)
	if err != nil {
		return nil, err
	}
	var pods []*corev1.Pod
	running := map[string]*corev1.Pod{}
	for _, p := range podsOf(x.objects, d.Namespace) {
		if metav1.IsControlledBy(p, d) {
			running[p.Spec.NodeName] = p
			pods = append(pods, p)
		}
	}
	var nodes []*corev1.Node
	for _, object := range x.objects.All {
		if node, ok := object.(*corev1.Node); ok {
			nodes = append(nodes, node)
		}
	}
	x.measure(ctx, cluster, pods...)
	usage, err := cluster.LeavingUsageOf(ctx, []string{pod.Spec.SchedulerName}, pods, x.usages)
	if err != nil {
		return nil, err
	}
	restore := usage.Publish()
	defer restore()
	r, err := explainDaemonSet(ctx, cluster.Scheduler, pod, nodes, running)
	if err != nil {
		return nil, err
	}
	r.Configuration, r.Namespace, r.Name = x.configuration.Origin, d.Namespace, d.Name
	if usage.Estimated {
		notes = append(notes, "The usage of some of its pods is not measured: what their nodes count of it is estimated.")
	}
	r.Notes = append(notes, x.notesOn(cluster, nil)...)
	return r, nil
}

// explainDaemonSet tries the pod on each node. running are its pods by node.
func explainDaemonSet(
	ctx context.Context, s *sim.Scheduler, pod *corev1.Pod, nodes []*corev1.Node, running map[string]*corev1.Pod,
) (*DaemonSetExplanation, error) {
	r := &DaemonSetExplanation{Profile: pod.Spec.SchedulerName, Nodes: len(nodes)}
	selected := nodeaffinity.GetRequiredNodeAffinity(pod)
	out := &sim.Result{}
	for _, node := range nodes {
		if matches, err := selected.Match(node); err != nil || !matches {
			r.NotSelected = append(r.NotSelected, node.Name)
			continue
		}
		present := running[node.Name]
		if present != nil {
			if err := s.Remove(present); err != nil {
				return nil, err
			}
		}
		result, err := tryOn(ctx, s, pod, node.Name)
		if err != nil {
			return nil, err
		}
		if present != nil {
			if err := s.Add(present); err != nil {
				return nil, err
			}
		}
		var fitError *framework.FitError
		switch {
		case errors.As(result.Err, &fitError):
			status := fitError.Diagnosis.NodeToStatus.Get(node.Name)
			out.Nodes = append(out.Nodes, sim.NodeResult{
				Name: node.Name, RuledOutBy: status.Plugin(), Reason: text.Excerpt(strings.Join(status.Reasons(), ", ")),
			})
		case present != nil:
			r.Admitting = append(r.Admitting, DaemonSetNode{node.Name, present.Name})
		default:
			r.Admitting = append(r.Admitting, DaemonSetNode{Name: node.Name})
		}
	}
	r.RuledOut = ruledOut(out)
	return r, nil
}

// tryOn places the pod as the controller does on the node. Where a limit is waived for the pod, it is tried again.
func tryOn(ctx context.Context, s *sim.Scheduler, pod *corev1.Pod, node string) (*sim.Result, error) {
	pod = pod.DeepCopy()
	pod.Name, pod.UID = pod.Name+"-"+node, pod.UID+types.UID("/"+node) // a limit is waived for one pod
	pod.Spec.Affinity = daemonutil.ReplaceDaemonSetPodNodeNameNodeAffinity(pod.Spec.Affinity, node)
	attempts, err := sim.Attempt(ctx, pod, s.Decide, nil)
	if err != nil {
		return nil, err
	}
	return attempts[len(attempts)-1], nil
}

// Print implements Result.
func (r *DaemonSetExplanation) Print(p *terminal.Printer) {
	p.Printf("DaemonSet %s/%s, profile %s\nConfiguration: %s\n\n", r.Namespace, r.Name, r.Profile, r.Configuration)
	var missing []string
	for _, n := range r.Admitting {
		if n.Pod == "" {
			missing = append(missing, n.Name)
		}
	}
	p.Printf("%s; they are not ranked, for the controller chooses the node of each pod.\n",
		p.Bold("%d of %s take its pod", len(r.Admitting), text.Count(r.Nodes, "node")))
	if missing != nil {
		p.Printf("Without a pod yet: %s\n", firstNames(missing))
	}
	if len(r.NotSelected) > 0 {
		p.Printf("Not selected by its node selector or affinity: %s\n", firstNames(r.NotSelected))
	}
	if len(r.RuledOut) > 0 {
		p.Printf("\nFilters rule out %s:\n", text.Count(r.Nodes-len(r.Admitting)-len(r.NotSelected), "node"))
		(&printer{Printer: p}).ruledOut(r.RuledOut)
	}
	for _, note := range r.Notes {
		p.Printf("Note: %s\n", note)
	}
}

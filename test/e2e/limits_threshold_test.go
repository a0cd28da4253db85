package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

func thresholdNodes() []limited {
	return []limited{
		{pool: "deviation", name: "deviation-swinging", load: 0.50, swing: "2"},
		{pool: "deviation", name: "deviation-steady", load: 0.30, requests: "6"},
		{pool: "line", name: "line-hot", load: 0.90},
		{pool: "line", name: "line-mild", load: 0.50, requests: "6"},
		{pool: "memory", name: "memory-full", load: 0.10, memory: "20Gi"},
		{pool: "memory", name: "memory-free", load: 0.10, memory: "1Mi", requests: "6"},
		{pool: "windows", name: "windows-hot", load: 0.90, memory: "1Mi"},
		{pool: "windows", name: "windows-was-full", load: 0.10, memory: "20Gi"},
		{pool: "windows", name: "windows-free", load: 0.10, memory: "1Mi"},
		{pool: "unmeasured", name: unmeasuredIdle},
		{pool: "unmeasured", name: unmeasuredBusy, requests: "7"},
		{pool: "relax", name: "relax-hotter", load: 0.99},
		{pool: "relax", name: "relax-crowded", load: 0.60},
		{pool: "relax", name: "relax-hot", load: 0.90, requests: "7500m", requestedMemory: "31Gi"},
		{pool: "by-name", name: "by-name-1", load: 0.90},
		{pool: "by-name", name: "by-name-2", load: 0.95},
		{pool: "reject", name: "reject-1", load: 0.90},
		{pool: "reject", name: "reject-2", load: 0.95},
		{pool: "preempt", name: "preempt-hot", load: 0.90},
		{pool: "preempt", name: "preempt-cool", load: 0.05},
	}
}

const (
	unmeasuredIdle = cluster.Unmeasured + "idle"
	unmeasuredBusy = cluster.Unmeasured + "busy"
)

func (e environment) wantThresholds() {
	for _, part := range []struct {
		name string
		run  func(environment)
	}{
		{"a node above its line is ruled out", environment.wantBelowLine},
		{"the reason is on the pod", environment.wantReasonOnPod},
		{"exempt pods are placed above the line", environment.wantExempt},
		{"an annotation sets the line of a node", environment.wantLineOfAnnotation},
		{"a malformed annotation has no effect", environment.wantInvalidAnnotation},
		{"memory has a line of its own", environment.wantMemoryLine},
		{"each resource is compared over its own window", environment.wantWindows},
		{"deviations count with MeanPlusStdDev", environment.wantDeviations},
		{"missingLoad decides about a node without load", environment.wantMissingLoad},
		{"Relax places at once and evicts nobody", environment.wantRelaxed},
		{"Relax relaxes where the plugin is enabled by name", environment.wantRelaxedByName},
		{"Reject places once load has fallen", environment.wantBoundAfterFall},
		{"preemption still works where requests need it", environment.wantPreemption},
	} {
		e.t.Run(part.name, func(t *testing.T) { part.run(e.in(t)) })
	}
}

func (e environment) wantBelowLine() {
	e.wantOn("line-mild", "which is below the line", cluster.Pod{Name: "below", Scheduler: "reject", NodeSelector: pool("line")})
}

func (e environment) wantReasonOnPod() {
	e.refused(cluster.Pod{Name: "refused", Scheduler: "reject", NodeSelector: host("line-hot")}, aboveLine(1, 80))
	nodes := check.Value(e.Client.CoreV1().Nodes().List(e.ctx, metav1.ListOptions{}))(e.t)
	n := len(nodes.Items)
	message := fmt.Sprintf(
		"0/%d nodes are available: 1 node(s) above their cpu load line (80 percent), %d node(s) didn't match Pod's node affinity/selector.",
		n, n-1,
	)
	event := check.Value(e.WaitEvent(e.ctx, "refused", "FailedScheduling"))(e.t)
	if !strings.HasPrefix(event.Note, message) {
		e.t.Errorf("the event begins %q, want %q", event.Note, message)
	}
	check.Contains(e.t, e.describe("pod", "refused"), message)
}

// label sets a label of a pod.
func (e environment) label(pod, name, value string) {
	e.t.Helper()
	patch := fmt.Appendf(nil, `{"metadata": {"labels": {%q: %q}}}`, name, value)
	check.Value(e.Client.CoreV1().Pods(metav1.NamespaceDefault).Patch(e.ctx, pod, types.MergePatchType, patch, metav1.PatchOptions{}))(e.t)
}

func (e environment) wantExempt() {
	exempt := map[string]string{"exempt": "true"}
	for _, pod := range []cluster.Pod{
		{Name: "of-daemon-set", DaemonSet: "agent", DaemonSetNode: "line-hot"},
		{Name: "of-exempt-class", PriorityClass: "exempt"},
		{Name: "labeled-exempt", Labels: exempt},
	} {
		pod.Scheduler, pod.NodeSelector = "reject", host("line-hot")
		e.placeLimited(pod)
	}
	// This pod gets the label of exempt pods while it waits.
	e.refused(cluster.Pod{Name: "not-exempt", Scheduler: "reject", NodeSelector: host("line-hot")}, aboveLine(1, 80))
	e.label("not-exempt", "exempt", "true")
	e.bound("not-exempt")
}

func (e environment) wantLineOfAnnotation() {
	const annotation = "plimsoll.io/thresholds"
	e.must(e.AnnotateNode(e.ctx, "line-mild", annotation, "cpu=40"))
	// Until the scheduler has seen the annotation, it places by the line of the profile.
	e.eventually("the annotation to count", func() bool {
		e.must(e.DeletePods(e.ctx, metav1.NamespaceDefault, metav1.ListOptions{LabelSelector: "name=lowered"}))
		e.create(cluster.Pod{Name: "lowered", Scheduler: "reject", NodeSelector: host("line-mild")})
		return check.Value(e.WaitDecided(e.ctx, "lowered"))(e.t) != ""
	})
	message := check.Value(e.WaitRefused(e.ctx, "lowered"))(e.t)
	e.wantReason("at 50 %", message, aboveLine(1, 40))
	e.must(e.AnnotateNode(e.ctx, "line-mild", annotation, "cpu=70"))
	check.Equal(e.t, "node with a line at 70 %", "line-mild", e.bound("lowered"))
}

func (e environment) wantInvalidAnnotation() {
	e.must(e.AnnotateNode(e.ctx, "line-hot", "plimsoll.io/thresholds", "cpu=lots"))
	// The line is that of the profile.
	e.refused(cluster.Pod{Name: "malformed", Scheduler: "reject", NodeSelector: host("line-hot")}, aboveLine(1, 80))
}

func (e environment) wantMemoryLine() {
	// 20Gi of 32Gi are 62.5 %.
	e.wantOn("memory-free", "which is below the line",
		cluster.Pod{Name: "by-memory-line", Scheduler: "memory-line", NodeSelector: pool("memory")})
	e.refused(cluster.Pod{Name: "above-memory-line", Scheduler: "memory-line", NodeSelector: host("memory-full")},
		reason(1, "above their memory load line (2 percent)"))
}

// wantWindows has a node whose memory usage falls from 62.5 % to nothing. Ten seconds later its mean over 10 s is below a line at 2
// %. Its mean over an hour stays above the line thirty times as long as the node was full. Of the hour, Prometheus has only the
// time since the start. CPU is read over a minute: its mean over an hour takes an hour of samples.
func (e environment) wantWindows() {
	e.refused(cluster.Pod{Name: "short-window", Scheduler: "memory-line", NodeSelector: host("windows-was-full")},
		reason(1, "above their memory load line (2 percent)"))
	e.must(e.SetLoad(e.ctx, "windows-was-full", cluster.Load{Usage: cluster.Usage{CPU: millis(0.10), Memory: "1Mi"}}))
	e.bound("short-window")
	e.refused(cluster.Pod{Name: "long-window", Scheduler: "windows", NodeSelector: host("windows-was-full")},
		reason(1, "above their memory load line (2 percent)"))
	e.refused(cluster.Pod{Name: "hot-now", Scheduler: "windows", NodeSelector: host("windows-hot")}, aboveLine(1, 80))
	e.wantOn("windows-free", "which is below both lines",
		cluster.Pod{Name: "both-windows", Scheduler: "windows", NodeSelector: pool("windows")})
}

// wantDeviations has a node whose mean of 50 % is below the line. Five times its deviation, which is up to 25 points, takes it
// above. The steady node is at 30 % and has next to no deviation.
func (e environment) wantDeviations() {
	e.wantOn("deviation-steady", "which is steady",
		cluster.Pod{Name: "steady", Scheduler: "deviation", NodeSelector: pool("deviation")})
	e.refused(cluster.Pod{Name: "swinging", Scheduler: "deviation", NodeSelector: host("deviation-swinging")}, aboveLine(1, 80))
	// By the mean alone the node is below the line.
	e.placeLimited(cluster.Pod{Name: "mean", Scheduler: "reject", NodeSelector: host("deviation-swinging")})
}

// wantMissingLoad has two nodes that no series matches. By requests one is above the line, at 7/8, and the other below.
func (e environment) wantMissingLoad() {
	e.placeLimited(cluster.Pod{Name: "missing-passes", Scheduler: "missing-passes", NodeSelector: host(unmeasuredBusy)})
	e.refused(cluster.Pod{Name: "missing-many-requests", Scheduler: "reject", NodeSelector: host(unmeasuredBusy)}, aboveLine(1, 80))
	e.placeLimited(cluster.Pod{Name: "missing-few-requests", Scheduler: "reject", NodeSelector: host(unmeasuredIdle)})
	e.refused(cluster.Pod{Name: "missing-is-refused", Scheduler: "missing-is-refused", NodeSelector: host(unmeasuredIdle)},
		reason(1, "without known cpu load"))
}

// wantRelaxed has a node that only a pod of low priority takes above its line. Evicting that pod would make room. By requests the
// least loaded node is full, so that stock scoring ranks it last.
func (e environment) wantRelaxed() {
	victim := cluster.Pod{
		Name: "relax-victim", Scheduler: "default-scheduler", PriorityClass: "low", NodeSelector: host("relax-crowded"),
		Resources: requests("3"), Usage: cluster.Usage{CPU: "3"},
	}
	e.placeLimited(victim)
	pod := cluster.Pod{Name: "relaxed", Scheduler: "relax", PriorityClass: "high", NodeSelector: pool("relax")}
	check.Equal(e.t, "node, the least loaded", "relax-hot", e.relaxed(pod, aboveLine(3, 80)))
	e.wantAlive(victim.Name)
}

func (e environment) wantRelaxedByName() {
	e.relaxed(cluster.Pod{Name: "relaxed-by-name", Scheduler: "by-name", NodeSelector: pool("by-name")}, aboveLine(2, 80))
}

func (e environment) wantAlive(pod string) {
	e.t.Helper()
	p, err := e.Client.CoreV1().Pods(metav1.NamespaceDefault).Get(e.ctx, pod, metav1.GetOptions{})
	if err != nil {
		e.t.Errorf("%s was evicted: %v", pod, err)
	} else if p.DeletionTimestamp != nil {
		e.t.Errorf("%s is being evicted", pod)
	}
}

// wantBoundAfterFall expects the refresh with a node below its line to retry the waiting pod. Nothing must retry it before.
func (e environment) wantBoundAfterFall() {
	const profile = "wait"
	before := e.attempts(profile)
	e.refused(cluster.Pod{Name: "waiting", Scheduler: profile, NodeSelector: pool("reject")}, aboveLine(2, 80))
	e.placeLimited(cluster.Pod{Name: "bystander", Scheduler: "default-scheduler", NodeSelector: host("line-mild")})
	for _, value := range numbered("changed", 3) {
		e.label("bystander", "unrelated", value)
	}
	// When this pod is placed, the scheduler has seen the changes of the pods before it.
	e.placeLimited(cluster.Pod{Name: "after-bystander", Scheduler: "default-scheduler", NodeSelector: host("line-mild")})

	e.wantAttempts(profile, before, attempts{unschedulable: 1})

	e.must(e.SetLoad(e.ctx, "reject-1", cluster.Load{Usage: cluster.Usage{CPU: millis(0.20), Memory: "4Gi"}}))
	fell := time.Now()
	var shown time.Time
	e.eventually("the waiting pod to be bound", func() bool {
		if shown.IsZero() {
			load := check.Value(e.CPUUtilizationAt(e.ctx, time.Now(), limitWindow))(e.t)
			if load["reject-1"] < 0.80 {
				shown = time.Now()
			}
		}
		return e.nodeOf("waiting") != ""
	})
	check.Equal(e.t, "node, whose load fell", "reject-1", e.nodeOf("waiting"))
	scheduled := check.Value(e.WaitEvent(e.ctx, "waiting", "Scheduled"))(e.t)
	e.t.Logf("Reject: bound %.1f s after load fell, %.1f s after Prometheus showed it",
		scheduled.EventTime.Sub(fell).Seconds(), scheduled.EventTime.Sub(shown).Seconds())
	load := check.Value(e.CPUUtilizationAt(e.ctx, scheduled.EventTime.Time, limitWindow))(e.t)
	if load["reject-1"] >= 0.88 { // samples that came later change a rate by a tenth
		e.t.Errorf("the pod was bound when Prometheus showed %.1f %%, above the line", 100*load["reject-1"])
	}
	// Without a change, waiting pods are examined once a minute.
	if late := scheduled.EventTime.Sub(shown); !shown.IsZero() && late > 30*time.Second {
		e.t.Errorf("the pod was bound %v after Prometheus showed that load had fallen", late)
	}
	var after attempts
	e.eventually("the placement to be counted", func() bool {
		after = e.attempts(profile)
		return after.scheduled == before.scheduled+1
	})
	if n := after.unschedulable - before.unschedulable; n > 3 { // a rate that falls through the line may rise above it once more
		e.t.Errorf("the pod was refused %v times, want once or little more", n)
	}
}

// wantPreemption has a pod that no node has room for by requests, with or without the load line. By priority alone it would evict
// the pod on the hot node.
func (e environment) wantPreemption() {
	for node, priority := range map[string]string{"preempt-hot": "low", "preempt-cool": "middle"} {
		e.placeLimited(cluster.Pod{
			Name: "pod-on-" + node, Scheduler: "default-scheduler", PriorityClass: priority, NodeSelector: host(node),
			Resources: requests("5"),
		})
	}
	// 5 + 4 > 8 cores; 5 % + 4/8 = 55 %, below the line.
	pod := cluster.Pod{
		Name: "preempting", Scheduler: "relax", PriorityClass: "high", NodeSelector: pool("preempt"), Resources: requests("4"),
	}
	e.wantOn("preempt-cool", "which is below the line", pod)
	e.wantAlive("pod-on-preempt-hot")
	check.Equal(e.t, "node of the evicted pod", "", e.nodeOf("pod-on-preempt-cool"))
}

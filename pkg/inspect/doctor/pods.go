package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
)

// patience is how long a scheduler may take to look at a pod.
const patience = 10 * time.Second

// checkWaiting checks for pods that no scheduler looks at.
func (f *facts) checkWaiting() []Check {
	waiting, served, total := f.waitingPods()
	profiles, see := f.profiles(), ""
	if w := f.workload(); w != nil {
		see = live.DescribeCommand(w.Namespace, w.Kind, w.Name)
	}
	var checks []Check
	for _, name := range sortedKeys(waiting) {
		message, ours := waitingMessage(name, waiting[name]), slices.Contains(profiles, name)
		switch {
		case ours && f.leading() && served[name]: // they are next
		case ours && f.leading():
			checks = append(
				checks,
				warn(run(see, "Its queue may be long. If they still wait in a minute, see the scheduler's log."),
					"%s; a profile has this name", message)...)
		case ours:
			checks = append(checks, fail(run(see, "Start the scheduler; the pods need no change. See why it is down:"),
				"%s; a profile has this name, but its scheduler is down", message)...)
		default:
			if nearest := configlint.SimilarNames(name, profiles); len(nearest) > 0 {
				message += fmt.Sprintf("; did you mean %q?", nearest[0])
			}
			checks = append(checks, fail(f.objects.adviseWaiting(waiting[name], name, profiles), "%s", message)...)
		}
	}
	if len(checks) == 0 {
		return ok("no pod waits for a scheduler that is not running (%s for other reasons)", plural(total, "pod waits", "pods wait"))
	}
	return checks
}

// waitingPods returns the pods without a look by their scheduler, the active schedulers, and how many pods wait.
func (f *facts) waitingPods() (waiting map[string][]*corev1.Pod, served map[string]bool, total int) {
	waiting, served = map[string][]*corev1.Pod{}, map[string]bool{}
	for _, pod := range f.objects.pods {
		if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
			continue
		}
		total++
		name := pod.Spec.SchedulerName
		if lookedAt(pod) {
			served[name] = true
		} else if f.now.Sub(pod.CreationTimestamp.Time) > patience {
			waiting[name] = append(waiting[name], pod)
		}
	}
	return waiting, served, total
}

func waitingMessage(name string, pods []*corev1.Pod) string {
	names, them := make([]string, len(pods)), "them"
	for i, pod := range pods {
		names[i] = pod.Namespace + "/" + pod.Name
	}
	if len(pods) == 1 {
		them = "it"
	}
	return fmt.Sprintf("%s for scheduler %q, and no scheduler has looked at %s: %s", plural(len(pods), "pod waits", "pods wait"),
		name, them, text.FirstN(names))
}

// lookedAt reports whether a scheduler, or a gate, has said why the pod waits.
func lookedAt(pod *corev1.Pod) bool {
	return len(pod.Spec.SchedulingGates) > 0 ||
		slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
}

// adviseWaiting says how to let the owners of pods name a scheduler that exists: a pod cannot be changed.
func (o *objects) adviseWaiting(pods []*corev1.Pod, name string, profiles []string) []Advice {
	const atMost = 5
	to := append(configlint.SimilarNames(name, profiles), "default-scheduler")[0]
	var advice []Advice
	for _, pod := range pods {
		kind, owner := o.ownerOf(pod)
		if a := adviseOwner(pod, kind, owner, to); !slices.Contains(advice, a) && len(advice) < atMost {
			advice = append(advice, a)
		}
	}
	return advice
}

// adviseOwner says how to let the owner of the pod's template name a scheduler. kind is empty if there is none.
func adviseOwner(pod *corev1.Pod, kind, owner, to string) Advice {
	namespace, path := pod.Namespace, `{"spec":{"template":{"spec":{"schedulerName":"%s"}}}}`
	switch kind {
	case ownerUnknown:
		return Advice{
			Text: fmt.Sprintf("Let the unknown owner of pod %s/%s write schedulerName %s into its pods.", namespace, pod.Name, to),
		}
	case "":
		again := Advice{Text: fmt.Sprintf("Create pod %s/%s again with schedulerName %s:", namespace, pod.Name, to)}
		if isName(to) {
			patch := `kubectl patch --local -f - --type=merge -p '{"spec":{"schedulerName":"` + to + `"}}' -o json`
			again.Command = fmt.Sprintf("kubectl -n %s get pod %s -o json | %s | kubectl replace --force -f -",
				live.ShellQuote(namespace), live.ShellQuote(pod.Name), patch)
		}
		return again
	case "Job":
		return Advice{Text: fmt.Sprintf("A Job cannot be changed: create Job %s/%s again with schedulerName %s.", namespace, owner, to)}
	case "CronJob":
		path = `{"spec":{"jobTemplate":` + path + `}}`
	}
	advice := Advice{Text: fmt.Sprintf("Let %s %s/%s write schedulerName %s:", kind, namespace, owner, to)}
	if isName(to) {
		advice.Command = fmt.Sprintf("kubectl -n %s patch %s %s --type=merge -p '%s'",
			live.ShellQuote(namespace), strings.ToLower(kind), live.ShellQuote(owner), fmt.Sprintf(path, to))
	}
	return advice
}

// ownerUnknown is the kind of an owner that does not exist, or that was not listed.
const ownerUnknown = "unknown"

// ownerOf returns the object with the pod's template; kind is empty if there is none. A pod's author can write any owner:
// listed kinds must exist, and other owners must have a valid name.
func (o *objects) ownerOf(pod *corev1.Pod) (kind, name string) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return "", ""
	}
	switch owner.Kind {
	case "ReplicaSet", "StatefulSet", "ReplicationController":
		listed := o.controllers[controller{owner.Kind, pod.Namespace, owner.Name}]
		if listed == nil {
			return ownerUnknown, ""
		}
		if above := metav1.GetControllerOf(listed); above == nil {
			return owner.Kind, owner.Name
		} else if above.Kind == "Deployment" && isName(above.Name) {
			return above.Kind, above.Name
		}
	case "DaemonSet", "Job", "CronJob":
		if isName(owner.Name) {
			return owner.Kind, owner.Name
		}
	}
	return ownerUnknown, ""
}

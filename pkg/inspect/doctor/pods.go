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

// checkPods checks for pods that wait and that no scheduler looks at.
func (e *examination) checkPods() {
	var profiles []string
	away := ""
	if e.configuration != nil && e.configuration.Decoded != nil {
		for i := range e.configuration.Decoded.Profiles {
			profiles = append(profiles, e.configuration.Decoded.Profiles[i].SchedulerName)
		}
		if w := e.configuration.Workload; w != nil {
			away = describeCommand(w.Namespace, w.Kind, w.Name)
		}
	}
	e.addAll(e.objects.waitingChecks(profiles, e.leading, away, time.Now()))
}

// waitingChecks returns a check for each scheduler that pods wait for in vain. profiles are the names that our scheduler serves;
// leading is whether it does, and away the command that shows why not.
func (o *objects) waitingChecks(profiles []string, leading bool, away string, now time.Time) []Check {
	waiting := map[string][]*corev1.Pod{}
	served := map[string]bool{}
	total := 0
	for _, pod := range o.pods {
		name := pod.Spec.SchedulerName
		if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
			continue
		}
		total++
		if lookedAt(pod) {
			served[name] = true // whoever serves it wrote the condition
			continue
		}
		if now.Sub(pod.CreationTimestamp.Time) > patience {
			waiting[name] = append(waiting[name], pod)
		}
	}
	var checks []Check
	for _, name := range sortedKeys(waiting) {
		pods := waiting[name]
		shown := make([]string, len(pods))
		for i, pod := range pods {
			shown[i] = pod.Namespace + "/" + pod.Name
		}
		message := fmt.Sprintf("%s for scheduler %q, and no scheduler has looked at %s: %s", verb(len(pods), "pod waits", "pods wait"), name,
			map[bool]string{true: "it", false: "them"}[len(pods) == 1], text.FirstN(shown))
		switch {
		case slices.Contains(profiles, name) && leading:
			if served[name] {
				continue // it is on its way
			}
			checks = append(checks, newCheck(Warning, "pods.waiting", message+"; a profile has this name", Advice{
				Text: "Its queue may be long. If they still wait in a minute, the scheduler's log says why.", Command: away,
			}))
		case slices.Contains(profiles, name):
			checks = append(checks, newCheck(Error, "pods.waiting", message+"; a profile has this name, but its scheduler is away", Advice{
				Text: "Bring it back; nothing is to be done about the pods. This shows why it is away:", Command: away,
			}))
		default:
			checks = append(checks, newCheck(Error, "pods.waiting", message+didYouMean(name, profiles), o.adviseWaiting(pods, name, profiles)...))
		}
	}
	if len(checks) == 0 {
		return []Check{newCheck(OK, "pods.waiting", fmt.Sprintf("no pod waits for a scheduler that nobody runs (%s for other reasons)", verb(total, "pod waits", "pods wait")))}
	}
	return checks
}

// lookedAt reports whether a scheduler, or a gate, has said why the pod waits.
func lookedAt(pod *corev1.Pod) bool {
	return len(pod.Spec.SchedulingGates) > 0 || slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
}

// nearestProfile returns the profile whose name is most similar; empty if none is.
func nearestProfile(name string, profiles []string) string {
	if similar := configlint.SimilarNames(name, profiles); len(similar) > 0 {
		return similar[0]
	}
	return ""
}

func didYouMean(name string, profiles []string) string {
	if nearest := nearestProfile(name, profiles); nearest != "" {
		return fmt.Sprintf("; did you mean %q?", nearest)
	}
	return ""
}

// adviseWaiting says how to let pods name a scheduler that exists: by their owners, for the name of a pod cannot be changed.
func (o *objects) adviseWaiting(pods []*corev1.Pod, name string, profiles []string) []Advice {
	to := nearestProfile(name, profiles)
	if to == "" {
		to = "default-scheduler"
	}
	const most = 5
	var advice []Advice
	seen := map[string]bool{}
	for _, pod := range pods {
		kind, owner := o.ownerOf(pod)
		key := kind + "/" + pod.Namespace + "/" + owner
		if seen[key] || len(advice) == most {
			continue
		}
		seen[key] = true
		advice = append(advice, adviseOwner(pod, kind, owner, to))
	}
	return advice
}

// adviseOwner says how to let what holds the pod's template name a scheduler. kind is empty if nothing does.
func adviseOwner(pod *corev1.Pod, kind, owner, to string) Advice {
	path := `{"spec":{"template":{"spec":{"schedulerName":"%s"}}}}`
	switch kind {
	case ownerUnknown:
		return Advice{Text: fmt.Sprintf("Let what creates pod %s/%s write schedulerName %s into its pods; the pod names an owner that is not known.", pod.Namespace, pod.Name, to)}
	case "":
		again := Advice{Text: fmt.Sprintf("Create pod %s/%s again with schedulerName %s:", pod.Namespace, pod.Name, to)}
		if isName(to) {
			again.Command = fmt.Sprintf(`kubectl -n %[1]s get pod %[2]s -o json | kubectl patch --local -f - --type=merge -p '{"spec":{"schedulerName":"%[3]s"}}' -o json | kubectl replace --force -f -`,
				live.ShellQuote(pod.Namespace), live.ShellQuote(pod.Name), to)
		}
		return again
	case "Job":
		return Advice{Text: fmt.Sprintf("A Job cannot be changed: create Job %s/%s again with schedulerName %s.", pod.Namespace, owner, to)}
	case "CronJob":
		path = `{"spec":{"jobTemplate":` + path + `}}`
	}
	advice := Advice{Text: fmt.Sprintf("Let %s %s/%s write schedulerName %s:", kind, pod.Namespace, owner, to)}
	if isName(to) {
		advice.Command = fmt.Sprintf("kubectl -n %s patch %s %s --type=merge -p '%s'", live.ShellQuote(pod.Namespace), strings.ToLower(kind), live.ShellQuote(owner), fmt.Sprintf(path, to))
	}
	return advice
}

// ownerUnknown is the kind of an owner that does not exist, or that cannot be looked up.
const ownerUnknown = "unknown"

// ownerOf returns what holds the pod's template; kind is empty if nothing does. A pod's author writes the kind and the name of its
// owner as they like: what was listed must exist, and of other kinds that make pods the name must be one.
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
		if above := metav1.GetControllerOf(listed); above != nil {
			if above.Kind != "Deployment" || !isName(above.Name) {
				return ownerUnknown, ""
			}
			return above.Kind, above.Name
		}
		return owner.Kind, owner.Name
	case "DaemonSet", "Job", "CronJob":
		if isName(owner.Name) {
			return owner.Kind, owner.Name
		}
	}
	return ownerUnknown, ""
}

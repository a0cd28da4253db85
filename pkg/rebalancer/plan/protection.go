package plan

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

// systemCriticalPriority is the lowest priority of system-critical pods.
const systemCriticalPriority = 2_000_000_000

// longestOwner bounds the text of tenants in the state. The names of a controller that exists are shorter.
const longestOwner = 512

// Reason says why a pod stays. A api.Protection is one, too.
type Reason string

// Reasons that no configuration turns off.
const (
	Ending           Reason = "Ending"
	StaticPod        Reason = sim.StaticPod
	DaemonSet        Reason = sim.DaemonSet
	NoController     Reason = "NoController"
	PodGroup         Reason = "PodGroup"
	OptedOut         Reason = "OptedOut"
	Resizing         Reason = "Resizing"
	TooYoung         Reason = "TooYoung"
	NotRunning       Reason = "NotRunning"
	OtherScheduler   Reason = "OtherScheduler"
	OtherNamespace   Reason = "OtherNamespace"
	AsksExtender     Reason = "AsksExtender"
	WorkloadBarred   Reason = "WorkloadBarred"
	WorkloadLimit    Reason = "WorkloadLimit"
	NamespaceLimit   Reason = "NamespaceLimit"
	NamespaceRests   Reason = "NamespaceRests"
	DisruptionBudget Reason = "DisruptionBudget"
	EvictionRefused  Reason = "EvictionRefused"
	LittleRelief     Reason = "LittleRelief"
	NotSimulated     Reason = "NotSimulated"
	SimulationFailed Reason = "SimulationFailed"
	NoOtherNode      Reason = "NoOtherNode"
	WouldReturn      Reason = "WouldReturn"
	NoRoom           Reason = "NoRoom"
	AnotherMoves     Reason = "AnotherMoves"
)

// The annotations of cluster-autoscaler.
const (
	safeToEvict        = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	safeToEvictVolumes = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
)

// optOuts are the annotations of other tools that keep a pod where it is.
var optOuts = map[string]func(value string) bool{
	safeToEvict:                   func(value string) bool { return value == "false" },
	"karpenter.sh/do-not-disrupt": func(value string) bool { return value == "true" },
	"descheduler.alpha.kubernetes.io/prefer-no-eviction": func(string) bool { return true },
	// Another component moves these pods, such as KubeVirt.
	"descheduler.alpha.kubernetes.io/request-evict-only":   func(string) bool { return true },
	"descheduler.alpha.kubernetes.io/eviction-in-progress": func(string) bool { return true },
}

// Movable reports whether the pod may move, as far as the pod itself tells. Its age, replicas and budgets are not looked at.
func Movable(pod *corev1.Pod, c *api.Configuration) bool {
	return protection(pod, c, 0, startOf(pod)) == ""
}

// protection returns why the pod must stay, independent of its node; empty if it may move.
func protection(pod *corev1.Pod, c *api.Configuration, minAge time.Duration, now time.Time) Reason {
	owner := metav1.GetControllerOfNoCopy(pod)
	switch leaves := sim.LeavesWithNode(pod); {
	case leaves != "":
		return Reason(leaves)
	case pod.DeletionTimestamp != nil:
		return Ending
	case owner == nil || len(owner.Kind)+len(owner.Name)+len(owner.UID) > longestOwner:
		return NoController
	case !c.Namespaces.Selects(pod.Namespace):
		return OtherNamespace
	case minor.PodGroupOf(pod) != "":
		return PodGroup
	case hasOptedOut(pod):
		return OptedOut
	case hasCondition(pod, corev1.PodResizePending, corev1.PodResizeInProgress):
		return Resizing
	}
	holds := func(p api.Protection) bool {
		return !slices.Contains(c.Unprotected, p) && protected(pod, owner, p)
	}
	if i := slices.IndexFunc(api.Protections(), holds); i >= 0 {
		return Reason(api.Protections()[i])
	}
	if !isReady(pod) {
		return NotRunning
	}
	if now.Sub(startOf(pod)) < minAge {
		return TooYoung
	}
	return ""
}

// protected reports whether the protection holds for the pod. That of single replicas needs the other pods.
func protected(pod *corev1.Pod, owner *metav1.OwnerReference, by api.Protection) bool {
	switch by {
	case api.LocalStorage:
		return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return keepsData(pod, &v) })
	case api.PersistentVolumes:
		return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil || v.Ephemeral != nil
		})
	case api.ResourceClaims:
		return len(pod.Spec.ResourceClaims) > 0
	case api.Jobs:
		ends := pod.Spec.RestartPolicy == corev1.RestartPolicyNever || pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure
		return owner.Kind == "Job" || ends // other controllers may not create it again
	case api.SystemPriority:
		return ptr.Deref(pod.Spec.Priority, 0) >= systemCriticalPriority
	case api.SystemNamespace:
		return pod.Namespace == metav1.NamespaceSystem
	case api.OtherControllers:
		return controllers[owner.Kind] == nil && owner.Kind != "Job" // which is protected by Jobs
	}
	return false
}

// keepsData reports whether the volume loses data if the pod leaves its node. As in cluster-autoscaler, one in memory does not, and
// the pod's annotations name others that may.
func keepsData(pod *corev1.Pod, v *corev1.Volume) bool {
	if v.HostPath == nil && (v.EmptyDir == nil || v.EmptyDir.Medium == corev1.StorageMediumMemory) {
		return false
	}
	if names, ok := pod.Annotations[safeToEvictVolumes]; ok {
		return !slices.Contains(strings.Split(strings.ReplaceAll(names, " ", ""), ","), v.Name)
	}
	return pod.Annotations[safeToEvict] != "true"
}

// isSingle reports whether the pod must stay, because its controller has so many pods.
func isSingle(replicas int, c *api.Configuration) bool {
	return replicas == 1 && !slices.Contains(c.Unprotected, api.SingleReplicas)
}

func hasOptedOut(pod *corev1.Pod) bool {
	for name, keeps := range optOuts {
		if value, ok := pod.Annotations[name]; ok && keeps(value) {
			return true
		}
	}
	return false
}

func isReady(pod *corev1.Pod) bool { return hasCondition(pod, corev1.PodReady) }

// hasCondition reports whether one of the conditions is true.
func hasCondition(pod *corev1.Pod, conditions ...corev1.PodConditionType) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Status == corev1.ConditionTrue && slices.Contains(conditions, c.Type)
	})
}

func startOf(pod *corev1.Pod) time.Time {
	if pod.Status.StartTime != nil {
		return pod.Status.StartTime.Time
	}
	return pod.CreationTimestamp.Time
}

// disruptionOf returns the cost of a move of the pod, from 1 to 4. Three shares from 0 to 1 are added to 1:
//
//   - the pod's priority over the highest priority of users
//   - its deletion cost over the highest possible
//   - the remaining part of the hour after the workload's last move
func disruptionOf(pod *corev1.Pod, moved time.Time, now time.Time) float64 {
	const highestPriority = 1_000_000_000 // of users
	share := func(value, highest float64) float64 { return min(max(value/highest, 0), 1) }
	cost, err := strconv.ParseInt(pod.Annotations[corev1.PodDeletionCost], 10, 32)
	if err != nil {
		cost = 0
	}
	disruption := 1 + share(float64(ptr.Deref(pod.Spec.Priority, 0)), highestPriority) + share(float64(cost), math.MaxInt32)
	if !moved.IsZero() {
		disruption += share(float64(remembered-now.Sub(moved)), float64(remembered))
	}
	return disruption
}

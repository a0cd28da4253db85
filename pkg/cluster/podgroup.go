package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// PodGroup is a group of pods that the scheduler places together, or not at all.
type PodGroup struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// MinCount is the lowest number of pods that are placed; 0 if pods of the group are placed one by one, or if it is unknown.
	MinCount int `json:"minCount"`
	// Bound is the number of pods with a node, and Waiting of those without one.
	Bound   int `json:"bound"`
	Waiting int `json:"waiting"`
	// Missing is how many pods lack for MinCount. Until they are created, none is placed.
	Missing int `json:"-"`
	// Absent is set where pods name a group that does not exist. None of them is placed.
	Absent bool `json:"absent,omitempty"`
	// Partial is set where a trial leaves out constraints on the topology, or a parent group.
	Partial bool `json:"-"`
	// Trial is set where the waiting pods were placed together in a simulation.
	Trial *GroupTrial `json:"trial,omitempty"`
	// Message is String. Count, Try and Preempt set it.
	Message string `json:"message"`

	// Unplaced says why the scheduler did not place the group when it last tried; empty if it did, or has not tried.
	Unplaced string `json:"-"`
	// First is a pod of the group: a waiting one if there is one.
	First *corev1.Pod `json:"-"`
}

// GroupTrial is the result of placing the waiting pods of a group.
type GroupTrial struct {
	// Fitting is how many find a node together, and Placed how many are placed then: those, or none.
	Fitting int `json:"fitting"`
	Placed  int `json:"placed"`
	// Preempted is how many pods are evicted for them.
	Preempted int `json:"preempted,omitempty"`
}

// PodGroups are groups by namespace/name.
type PodGroups map[string]*PodGroup

// GroupKey returns the key of the pod's group; empty if it has none.
func GroupKey(pod *corev1.Pod) string {
	if name := minor.PodGroupOf(pod); name != "" {
		return pod.Namespace + "/" + name
	}
	return ""
}

// Of returns the pod's group; nil if it has none.
func (g PodGroups) Of(pod *corev1.Pod) *PodGroup { return g[GroupKey(pod)] }

// Add takes over groups that are to be created. It has no effect on those of pods that Of does not know.
func (g PodGroups) Add(created PodGroups) {
	for key, with := range created {
		if group := g[key]; group != nil {
			group.MinCount, group.Partial, group.Absent = with.MinCount, with.Partial, false
		}
	}
}

// Waits reports whether the pod is to be placed.
func Waits(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && !podusage.HasEnded(pod)
}

// Count counts the pods anew.
func (g PodGroups) Count(pods []*corev1.Pod) {
	for _, group := range g {
		group.Bound, group.Waiting, group.First = 0, 0, nil
	}
	for _, pod := range pods {
		group := g.Of(pod)
		if group == nil {
			continue
		}
		group.First = cmp.Or(group.First, pod)
		switch {
		case pod.Spec.NodeName != "":
			group.Bound++
		case Waits(pod):
			if group.Waiting++; group.Waiting == 1 {
				group.First = pod
			}
		}
	}
	for _, group := range g {
		group.update()
	}
}

// update derives fields from others.
func (g *PodGroup) update() {
	g.Missing = max(g.MinCount-g.Bound-g.Waiting, 0)
	g.Message = g.String()
}

// Preempt records that a bound pod of the group was evicted, and whether it waits again.
func (g *PodGroup) Preempt(again bool) {
	g.Bound--
	if again {
		g.Waiting++
	}
	g.update()
}

// groupObject is what is read of a PodGroup. Its fields are the same in all versions of the API.
type groupObject struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		SchedulingPolicy            struct{ Gang struct{ MinCount int } }
		SchedulingConstraints       struct{ Topology []struct{ Key string } }
		ParentCompositePodGroupName string
	}
	Status struct{ Conditions []metav1.Condition }
}

func (o *groupObject) setSpec(group *PodGroup) {
	group.MinCount = o.Spec.SchedulingPolicy.Gang.MinCount
	group.Partial = len(o.Spec.SchedulingConstraints.Topology) > 0 || o.Spec.ParentCompositePodGroupName != ""
}

// DecodePodGroup returns the group of a JSON object of any version of the API.
func DecodePodGroup(content []byte) (*PodGroup, error) {
	var object groupObject
	group := &PodGroup{}
	err := json.Unmarshal(content, &object)
	object.setSpec(group)
	return group, err
}

// ReadPodGroups returns the groups that pods name. If no pod names a group, ReadPodGroups sends no request. It returns no group if
// the API server has none, as before Kubernetes 1.36 and without the feature gate GenericWorkload. If the request fails, the
// minimums of the groups are unknown.
func ReadPodGroups(ctx context.Context, client kubernetes.Interface, pods []*corev1.Pod) (PodGroups, error) {
	groups := PodGroups{}
	for _, pod := range pods {
		if key := GroupKey(pod); key != "" && groups[key] == nil {
			groups[key] = &PodGroup{Namespace: pod.Namespace, Name: minor.PodGroupOf(pod)}
		}
	}
	if len(groups) == 0 {
		return nil, nil
	}
	var result rest.Result
	for _, version := range []string{"v1beta1", "v1alpha2"} { // the second is that of Kubernetes 1.36
		result = client.Discovery().RESTClient().Get().AbsPath("/apis/scheduling.k8s.io", version, "podgroups").
			Param("resourceVersion", "0").Do(ctx)
		if !apierrors.IsNotFound(result.Error()) {
			break
		}
	}
	var list struct{ Items []groupObject }
	err := result.Error()
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err == nil:
		content, _ := result.Raw() // its error is that of the result
		err = json.Unmarshal(content, &list)
	}
	for _, group := range groups {
		group.Absent = err == nil
	}
	for i := range list.Items {
		object := &list.Items[i]
		if group := groups[object.Namespace+"/"+object.Name]; group != nil {
			group.Absent = false
			object.setSpec(group)
			for _, c := range object.Status.Conditions {
				if c.Type == "PodGroupInitiallyScheduled" && c.Status == metav1.ConditionFalse {
					group.Unplaced = text.Excerpt(c.Message)
				}
			}
		}
	}
	groups.Count(pods)
	return groups, err
}

// PodGroups is ReadPodGroups, without groups if the scheduler places their pods one by one, or if they cannot be
// read; the kind is then missing in the objects. An unknown scheduler is nil.
func (c *Connection) PodGroups(ctx context.Context, scheduler *Workload, objects *Objects, pods []*corev1.Pod) PodGroups {
	if !scheduler.PlacesGroups() {
		return nil
	}
	groups, err := ReadPodGroups(ctx, c.Client, pods)
	if err != nil {
		objects.Missing = append(objects.Missing, c.Missing(ctx, "scheduling.k8s.io", "podgroups", err))
		return nil
	}
	return groups
}

// Try records that so many more waiting pods find a node, after so many preemptions. It reports whether the group reaches its
// minimum, so that they are placed.
func (g *PodGroup) Try(fitting, preempted int) (placed bool) {
	t := cmp.Or(g.Trial, &GroupTrial{})
	g.Trial = t
	t.Fitting += fitting
	defer g.update()
	if g.Bound+t.Placed+fitting < g.MinCount {
		return false
	}
	t.Placed, t.Preempted = t.Placed+fitting, t.Preempted+preempted
	return true
}

// Incomplete reports whether no pod of the group is tried, because pods or the group itself are not created yet.
func (g *PodGroup) Incomplete() bool { return g != nil && (g.Absent || g.Missing > 0) }

// String says what becomes of the group.
func (g *PodGroup) String() string {
	name := fmt.Sprintf("Group %s/%s", g.Namespace, text.Excerpt(g.Name))
	if g.Absent {
		return fmt.Sprintf("%s does not exist: none of its %s is placed.", name, text.Count(g.Waiting, "waiting pod"))
	}
	if g.MinCount > 0 {
		name += fmt.Sprintf(", minimum %d", g.MinCount)
	}
	name += fmt.Sprintf(": %d bound, %d waiting", g.Bound, g.Waiting)
	switch t := g.Trial; {
	case g.Missing > 0:
		return fmt.Sprintf("%s, %d missing: none is placed.", name, g.Missing)
	case t == nil:
		return name + "."
	case t.Placed == 0:
		return fmt.Sprintf("%s. %d of %d fit: none is placed.", name, t.Fitting, g.Waiting)
	default:
		name = fmt.Sprintf("%s. %d of %d fit", name, t.Placed, g.Waiting)
		if g.Partial {
			name += ", if its topology and its parent group allow it"
		} else {
			name += " and are placed"
		}
		if t.Preempted > 0 {
			name += ", in place of " + text.Count(t.Preempted, "other pod")
		}
		return name + "."
	}
}

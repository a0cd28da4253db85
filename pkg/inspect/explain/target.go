package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/manifest"
)

// Kind is a kind of objects that Run explains.
type Kind struct {
	// Kind and Resource are as in the API.
	Kind, Resource string
	// short is kubectl's short name; empty if there is none.
	short string
	group string
}

// Kinds returns the kinds that Run explains.
func Kinds() []Kind {
	return []Kind{
		{"Pod", "pods", "po", ""},
		{"Deployment", "deployments", "deploy", appsv1.GroupName},
		{"ReplicaSet", "replicasets", "rs", appsv1.GroupName},
		{"ReplicationController", "replicationcontrollers", "rc", ""},
		{"StatefulSet", "statefulsets", "sts", appsv1.GroupName},
		{"Job", "jobs", "", "batch"},
		{"CronJob", "cronjobs", "cj", "batch"},
	}
}

// Type returns the kind as kubectl's users write it.
func (k *Kind) Type() string { return strings.ToLower(k.Kind) }

// KindOf returns the kind of a type as kubectl takes it. Short names and plurals work too, with or without the group.
func KindOf(name string) (Kind, error) {
	all := Kinds()
	base, group, _ := strings.Cut(strings.ToLower(name), ".")
	i := slices.IndexFunc(all, func(k Kind) bool {
		return base != "" && (base == k.Type() || base == k.Resource || base == k.short) &&
			(group == "" || group == k.group || group == "v1."+k.group)
	})
	if i >= 0 {
		return all[i], nil
	}
	types := text.Each(all, func(k Kind) string { return k.Type() })
	return Kind{}, fmt.Errorf("type %q: write one of %s", name, strings.Join(types, ", "))
}

func (k *Kind) client(c kubernetes.Interface) rest.Interface {
	switch k.group {
	case appsv1.GroupName:
		return c.AppsV1().RESTClient()
	case "batch":
		return c.BatchV1().RESTClient()
	}
	return c.CoreV1().RESTClient()
}

// Target names the object that is explained.
type Target struct {
	Kind
	Name string
}

// get returns the object of the connection's namespace.
func (t *Target) get(ctx context.Context, c *cluster.Connection) (runtime.Object, error) {
	object, err := t.client(c.Client).Get().Namespace(c.Namespace).Resource(t.Resource).Name(t.Name).Do(ctx).Get()
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("%s %s: not found in namespace %s; use -n for another namespace, or -f for a file",
			t.Type(), t.Name, c.Namespace)
	case err != nil:
		return nil, fmt.Errorf("%s %s: %w", t.Type(), t.Name, err)
	}
	return object, nil
}

// JSON returns the object of the namespace as kubectl get prints it.
func (t *Target) JSON(ctx context.Context, c *cluster.Connection, namespace string) ([]byte, error) {
	content, err := t.client(c.Client).Get().Namespace(namespace).Resource(t.Resource).Name(t.Name).
		SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx).Raw()
	if err != nil {
		return nil, fmt.Errorf("%s %s/%s: %w", t.Type(), namespace, t.Name, err)
	}
	return content, nil
}

// ParseTarget reads NAME of a pod, TYPE/NAME, or TYPE NAME.
func ParseTarget(args []string) (Target, error) {
	first, name, found := strings.Cut(args[0], "/")
	switch {
	case len(args) == 1 && !found:
		return Target{Kinds()[0], first}, nil
	case len(args) == 2 && !found:
		name = args[1]
	case len(args) > 1:
		return Target{}, fmt.Errorf("%s: write one object, as NAME of a pod, TYPE/NAME or TYPE NAME", strings.Join(args, " "))
	}
	if name == "" || strings.Contains(name, "/") {
		return Target{}, fmt.Errorf("%s: write TYPE/NAME, such as deployment/web", strings.Join(args, " "))
	}
	if slices.Contains([]string{"namespace", "namespaces", "ns"}, strings.ToLower(first)) {
		return Target{}, fmt.Errorf("%s: explain takes one pod or workload; for all pods of the namespace, write: "+
			"kubectl plimsoll what-if --evict-all-in %s", strings.Join(args, " "), name)
	}
	kind, err := KindOf(first)
	return Target{kind, name}, err
}

// workloadOf returns the workload of the object. That of a Deployment is its newest ReplicaSet, if it has one.
func workloadOf(object runtime.Object, objects *cluster.Objects) *manifest.Workload {
	if deployment, ok := object.(*appsv1.Deployment); ok {
		if newest := newReplicaSet(deployment, objects); newest != nil {
			object = newest.DeepCopy() // Of changes it
		}
	}
	return manifest.Of(object)
}

// newReplicaSet returns the oldest ReplicaSet with the Deployment's template, as the Deployment's controller does; nil if there
// is none. The controller may be of another minor version, and hash the template in another way.
func newReplicaSet(d *appsv1.Deployment, objects *cluster.Objects) (found *appsv1.ReplicaSet) {
	for _, object := range objects.All {
		rs, ok := object.(*appsv1.ReplicaSet)
		if !ok || !metav1.IsControlledBy(rs, d) || found != nil && !rs.CreationTimestamp.Before(&found.CreationTimestamp) {
			continue
		}
		template := rs.Spec.Template.DeepCopy()
		delete(template.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
		if apiequality.Semantic.DeepEqual(template, &d.Spec.Template) {
			found = rs
		}
	}
	return found
}

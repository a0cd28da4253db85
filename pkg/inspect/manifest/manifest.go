// Package manifest turns manifests into pods, as the API server and the controllers of workloads would.
package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

const maxBytes = 4 << 20

// Manifest holds the objects of a file.
type Manifest struct {
	// Workloads are the pods and the objects that create pods, in the order of the manifest.
	Workloads []*Workload
	// DaemonSets have a pod for each node, which their controller places.
	DaemonSets []*appsv1.DaemonSet
	// Services matter because the scheduler spreads the pods of a Service by default.
	Services []*corev1.Service
	// Ignored names the other objects, such as "ConfigMap shop/settings".
	Ignored []string
}

// ReadFile reads the named file, or stdin if the name is "-". Objects without a namespace get namespace. It rejects
// files above 4 MiB, with unknown fields, or without pods.
func ReadFile(name string, stdin io.Reader, namespace string) (*Manifest, error) {
	if name != "-" {
		content, err := boundedfile.Read(name, maxBytes)
		if err != nil {
			return nil, err
		}
		stdin = bytes.NewReader(content)
	}
	infos, err := resource.NewLocalBuilder().Unstructured().Stream(boundedfile.NewReader(stdin, maxBytes), name).Flatten().Do().Infos()
	if err != nil {
		return nil, err
	}
	m := &Manifest{}
	for _, info := range infos {
		object := info.Object.(*unstructured.Unstructured)
		if err := m.add(object, namespace); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", name, nameOf(object), err)
		}
	}
	if len(m.Workloads)+len(m.DaemonSets) > 0 {
		return m, nil
	}
	found := text.Each(m.Services, func(s *corev1.Service) string { return "Service " + s.Namespace + "/" + s.Name })
	if found = append(m.Ignored, found...); len(found) == 0 {
		found = []string{"nothing at all"}
	}
	return nil, fmt.Errorf("%s: nothing in it creates pods: write a Pod, Deployment, ReplicaSet, ReplicationController, "+
		"StatefulSet, DaemonSet, Job or CronJob (there is %s)", name, strings.Join(found, ", "))
}

func (m *Manifest) add(object *unstructured.Unstructured, namespace string) error {
	if object.GetAPIVersion() == "" {
		return errors.New("apiVersion is missing")
	}
	typed, err := scheme.Scheme.New(object.GroupVersionKind())
	if runtime.IsNotRegisteredError(err) {
		m.Ignored = append(m.Ignored, nameOf(object)) // it may be cluster-scoped or namespaced
		return nil
	}
	if object.GetNamespace() == "" {
		object.SetNamespace(namespace)
	}
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed, true)
	}
	if err != nil {
		return err
	}
	if service, ok := typed.(*corev1.Service); ok {
		m.Services = append(m.Services, service)
		return nil
	}
	w := Of(typed)
	if w == nil {
		m.Ignored = append(m.Ignored, nameOf(object))
		return nil
	}
	if err := w.validate(); err != nil {
		return err
	}
	if d, ok := typed.(*appsv1.DaemonSet); ok {
		m.DaemonSets = append(m.DaemonSets, d)
	} else {
		m.Workloads = append(m.Workloads, w)
	}
	return nil
}

// nameOf returns kind, namespace and name.
func nameOf(object *unstructured.Unstructured) string {
	return object.GetKind() + " " + strings.Trim(object.GetNamespace()+"/"+object.GetName(), "/")
}

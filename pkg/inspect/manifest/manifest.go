// Package manifest turns manifests into pods, as the API server and the controllers of workloads would.
package manifest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

// Bounds of manifests.
const (
	maxBytes   = 4 << 20
	maxObjects = 1000
)

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
// files above 4 MiB, with unknown fields, with quantities that take long to read, or without pods.
func ReadFile(ctx context.Context, name string, stdin io.Reader, namespace string) (*Manifest, error) {
	var content []byte
	var err error
	if name == "-" {
		if content, err = io.ReadAll(io.LimitReader(stdin, maxBytes+1)); len(content) > maxBytes {
			err = fmt.Errorf("it has more than %d bytes", maxBytes)
		}
	} else if content, err = boundedfile.New(name, maxBytes).Read(ctx); err != nil {
		return nil, err
	}
	p := parser{
		decoder: serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer(), namespace: namespace,
	}
	if err == nil {
		err = p.parse(content)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &p.Manifest, nil
}

type parser struct {
	Manifest
	decoder   runtime.Decoder
	namespace string
	objects   int
}

func (p *parser) parse(content []byte) error {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for n := 1; ; n++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = p.document(document, false)
		}
		if err != nil {
			return fmt.Errorf("document %d: %w", n, err)
		}
	}
	if len(p.Workloads)+len(p.DaemonSets) > 0 {
		return nil
	}
	found := text.Each(p.Services, func(s *corev1.Service) string { return qualified("Service", s) })
	if found = append(p.Ignored, found...); len(found) == 0 {
		found = []string{"nothing at all"}
	}
	return fmt.Errorf("nothing in it creates pods: write a Pod, Deployment, ReplicaSet, ReplicationController, "+
		"StatefulSet, DaemonSet, Job or CronJob (there is %s)", strings.Join(found, ", "))
}

// document adds the object of a YAML or JSON document, which may be empty. isItem reports whether it is an item of a List.
func (p *parser) document(content []byte, isItem bool) error {
	if err := checkAliases(content); err != nil {
		return err
	}
	content, err := yaml.YAMLToJSONStrict(content)
	if err != nil {
		return err
	}
	unknown := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(content, &unknown.Object); err != nil {
		return err
	}
	if len(unknown.Object) == 0 {
		return nil
	}
	if p.objects++; p.objects > maxObjects {
		return fmt.Errorf("there are more than %d objects", maxObjects)
	}
	if err := checkQuantities(unknown); err != nil {
		p.setNamespace(unknown)
		return fmt.Errorf("%s: %w", text.Excerpt(qualified(unknown.GetKind(), unknown)), err)
	}
	object, kind, err := p.decoder.Decode(content, nil, nil)
	switch { // the decoder's messages contain the whole document
	case runtime.IsNotRegisteredError(err):
		p.Ignored = append(p.Ignored, qualified(unknown.GetKind(), unknown)) // it may be cluster-scoped or namespaced
		return nil
	case runtime.IsMissingKind(err):
		return errors.New("kind is missing")
	case runtime.IsMissingVersion(err):
		return errors.New("apiVersion is missing")
	case err != nil:
		return err
	}
	if list, ok := object.(*corev1.List); ok {
		if isItem { // each level would be parsed again
			return errors.New("a List in a List: write its items one by one")
		}
		for i := range list.Items {
			if err := p.document(list.Items[i].Raw, true); err != nil {
				return fmt.Errorf("items[%d]: %w", i, err)
			}
		}
		return nil
	}
	return p.add(object, kind.Kind)
}

func (p *parser) setNamespace(object metav1.Object) {
	if object.GetNamespace() == "" {
		object.SetNamespace(p.namespace)
	}
}

func (p *parser) add(object runtime.Object, kind string) error {
	meta, ok := object.(metav1.Object)
	if !ok {
		return fmt.Errorf("kind: %s is not an object; write its items one by one, or as a List", kind)
	}
	p.setNamespace(meta)
	if service, ok := object.(*corev1.Service); ok {
		p.Services = append(p.Services, service)
		return nil
	}
	w := Of(object)
	if w == nil {
		p.Ignored = append(p.Ignored, qualified(kind, meta))
		return nil
	}
	if err := w.validate(); err != nil {
		return fmt.Errorf("%s: %w", qualified(kind, meta), err)
	}
	daemonSets := text.Each(p.DaemonSets, func(d *appsv1.DaemonSet) string { return qualified("DaemonSet", d) })
	if slices.Contains(append(text.Each(p.Workloads, (*Workload).String), daemonSets...), w.String()) {
		return fmt.Errorf("%s: it is there twice", w)
	}
	if d, ok := object.(*appsv1.DaemonSet); ok {
		p.DaemonSets = append(p.DaemonSets, d)
	} else {
		p.Workloads = append(p.Workloads, w)
	}
	return nil
}

// qualified returns kind, namespace and name.
func qualified(kind string, object metav1.Object) string {
	if object.GetNamespace() == "" {
		return kind + " " + object.GetName()
	}
	return kind + " " + object.GetNamespace() + "/" + object.GetName()
}

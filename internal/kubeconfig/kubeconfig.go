// Package kubeconfig configures the clients and informers of a cluster.
package kubeconfig

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Read reads the file that a flag names; an empty name is the pod's own cluster.
func Read(flag, file, userAgent string) (*rest.Config, error) {
	read := rest.InClusterConfig
	if file != "" {
		read = func() (*rest.Config, error) { return clientcmd.BuildConfigFromFlags("", file) }
	}
	kubeConfig, err := read()
	if errors.Is(err, rest.ErrNotInCluster) {
		err = errors.New("required outside a pod; name the kubeconfig of the cluster")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return rest.AddUserAgent(kubeConfig, userAgent), nil
}

// WithProtobuf returns the configuration for typed clients. Protobuf is faster; JSON is for servers without it.
func WithProtobuf(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	c.ContentType = runtime.ContentTypeProtobuf
	return c
}

// WithoutManagedFields drops an object's managed fields, which are often half of its memory. It is a cache.TransformFunc.
func WithoutManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

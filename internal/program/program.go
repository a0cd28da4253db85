// Package program has what all programs share: version, metrics, and clients of a cluster.
package program

import (
	"cmp"
	"errors"
	"fmt"
	"runtime/debug"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Version returns the version that the linker set, or else that of the module.
func Version(linked string) string {
	built := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		built = info.Main.Version
	}
	return cmp.Or(linked, built)
}

// Registry is the registry of metrics behind the program's own /metrics.
type Registry struct{}

func (Registry) MustRegister(c ...metrics.Registerable) { legacyregistry.MustRegister(c...) }

func (Registry) CustomMustRegister(c ...metrics.StableCollector) {
	legacyregistry.CustomMustRegister(c...)
}

// ReadKubeconfig reads the file that a flag names; an empty name is the pod's own cluster.
func ReadKubeconfig(flag, file, userAgent string) (*rest.Config, error) {
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

// WithoutManagedFields drops an object's managed fields, which are often half of its memory. It is a cache.TransformFunc.
func WithoutManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

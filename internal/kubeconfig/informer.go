package kubeconfig

import "k8s.io/apimachinery/pkg/api/meta"

// WithoutManagedFields drops an object's managed fields, which are often half of its memory. It is a cache.TransformFunc.
func WithoutManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

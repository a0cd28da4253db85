package v1

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll-scheduler/plimsoll/pkg/quantity"
)

// ResourceList is a corev1.ResourceList that is read in bounded time.
type ResourceList corev1.ResourceList

// UnmarshalJSON reads the quantities by resource. The error names the resource whose quantity is none.
func (l *ResourceList) UnmarshalJSON(text []byte) error {
	var values map[corev1.ResourceName]json.RawMessage
	if err := json.Unmarshal(text, &values); err != nil {
		return err
	}
	*l = nil
	if values != nil {
		*l = make(ResourceList, len(values))
	}
	for name, value := range values {
		var q quantity.Bounded
		if err := json.Unmarshal(value, &q); err != nil {
			return fmt.Errorf("%.64q: %w", name, err)
		}
		(*l)[name] = resource.Quantity(q)
	}
	return nil
}

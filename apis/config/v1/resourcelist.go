package v1

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll-scheduler/plimsoll/internal/quantity"
)

// ResourceList is a corev1.ResourceList that is read in bounded time.
type ResourceList corev1.ResourceList

// UnmarshalJSON reads the quantities by resource. The error names the first duplicate resource or invalid quantity.
// The strict decoder does not look into a type that decodes itself.
func (l *ResourceList) UnmarshalJSON(text []byte) error {
	*l = nil
	if bytes.Equal(text, []byte("null")) {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	if token, err := dec.Token(); err != nil || token != json.Delim('{') {
		return errors.Join(errors.New("must be a mapping of resources to quantities"), err)
	}
	*l = ResourceList{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		name := corev1.ResourceName(token.(string)) // as all keys
		if _, ok := (*l)[name]; ok {
			return fmt.Errorf("duplicate field %.64q", name)
		}
		var q quantity.Bounded
		if err := dec.Decode(&q); err != nil {
			return fmt.Errorf("%.64q: %w", name, err)
		}
		(*l)[name] = resource.Quantity(q)
	}
	return nil
}

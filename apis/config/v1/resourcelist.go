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

// ResourceList is a corev1.ResourceList. Its decoder refuses quantities that take very long to parse, such as 1e-800000000.
type ResourceList corev1.ResourceList

// UnmarshalJSON reads the quantities by resource. The error names the first duplicate resource or invalid quantity.
// It finds duplicates itself, because strict decoding skips types that have an UnmarshalJSON of their own.
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
		name := corev1.ResourceName(token.(string)) // all keys of JSON are strings
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

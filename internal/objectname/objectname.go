// Package objectname reads names of objects in flags.
package objectname

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Parse reads NAMESPACE/NAME. The error names the object.
func Parse(value, object string) (types.NamespacedName, error) {
	namespace, name, _ := strings.Cut(value, "/")
	if namespace == "" || name == "" || strings.Contains(name, "/") {
		return types.NamespacedName{}, fmt.Errorf("%q; write NAMESPACE/NAME of %s", value, object)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}

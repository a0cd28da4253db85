package text

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// ParseName reads NAMESPACE/NAME. The error names the object.
func ParseName(value, object string) (types.NamespacedName, error) {
	namespace, name, _ := strings.Cut(value, "/")
	if namespace == "" || name == "" || strings.Contains(name, "/") {
		return types.NamespacedName{}, fmt.Errorf("%q; write NAMESPACE/NAME of %s", value, object)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}

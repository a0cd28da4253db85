package validation

import (
	"fmt"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validator adds the errors of one field, and of those below it, to a list.
type validator struct {
	path *field.Path
	errs *field.ErrorList
}

func at(path *field.Path) validator { return validator{path: path, errs: &field.ErrorList{}} }

func (v validator) child(name string) validator { return validator{v.path.Child(name), v.errs} }

func (v validator) index(i int) validator { return validator{v.path.Index(i), v.errs} }

func (v validator) key(name string) validator { return validator{v.path.Key(name), v.errs} }

func (v validator) add(errs ...*field.Error) { *v.errs = append(*v.errs, errs...) }

// check adds an error about the value, with what is allowed and what to write, unless it is valid.
func (v validator) check(isValid bool, value any, format string, args ...any) {
	if !isValid {
		v.add(field.Invalid(v.path, value, fmt.Sprintf(format, args...)))
	}
}

func (v validator) required(format string, args ...any) {
	v.add(field.Required(v.path, fmt.Sprintf(format, args...)))
}

func (v validator) forbidden(format string, args ...any) {
	v.add(field.Forbidden(v.path, fmt.Sprintf(format, args...)))
}

// atMost refuses a list that is too long, without its content. It reports whether the list is short enough.
func (v validator) atMost(most, n int, what string) bool {
	v.check(n <= most, fmt.Sprintf("%d %s", n, what), "must be at most %d %s: remove the others", most, what)
	return n <= most
}

// oneOf accepts the allowed values, which the error lists.
func oneOf[T ~string](v validator, value T, allowed ...T) {
	if !slices.Contains(allowed, value) {
		v.add(field.NotSupported(v.path, value, allowed))
	}
}

func isFinite(value float64) bool { return !math.IsNaN(value) && !math.IsInf(value, 0) }

func isFiniteNotNegative(value float64) bool { return value >= 0 && isFinite(value) }

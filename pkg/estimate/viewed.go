package estimate

import (
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// Defaults sums the default usage by namespace: that of starting pods on a node without requests and limits. Amounts are in
// milliCPU or bytes.
type Defaults []namespaceDefault

type namespaceDefault struct {
	namespace string
	amounts   podusage.Amounts
}

// Add adds amounts of a pod.
func (d *Defaults) Add(namespace string, amounts podusage.Amounts) {
	of := d.of(namespace)
	for r := range amounts {
		of.amounts[r] += amounts[r]
	}
}

func (d *Defaults) of(namespace string) *namespaceDefault {
	for i := range *d {
		if (*d)[i].namespace == namespace {
			return &(*d)[i]
		}
	}
	*d = append(*d, namespaceDefault{namespace: namespace})
	return &(*d)[len(*d)-1]
}

// Hidden is the part of the defaults that pods of the given namespace do not see. See podusage.MaxForeignDefault.
func (d Defaults) Hidden(namespace string, r load.Resource) float64 {
	hidden := 0.0
	for i := range d {
		if d[i].namespace != namespace {
			hidden += max(d[i].amounts[r]-podusage.MaxForeignDefault(r), 0)
		}
	}
	return hidden
}

// Viewed holds a value of one node as pods of each namespace see it. A nil Viewed means that all see the same value.
type Viewed[T any] struct {
	foreign T
	own     []namespaceView[T]
}

type namespaceView[T any] struct {
	namespace string
	value     T
}

// NewViewed calls view for each namespace with defaults, and for "", which stands for all others. Without defaults it returns nil.
func NewViewed[T any](d Defaults, view func(namespace string) T) *Viewed[T] {
	if len(d) == 0 {
		return nil
	}
	v := &Viewed[T]{foreign: view(""), own: make([]namespaceView[T], len(d))}
	for i := range d {
		v.own[i] = namespaceView[T]{d[i].namespace, view(d[i].namespace)}
	}
	return v
}

// For returns the value for a pod of the namespace. It returns all if v is nil, or if the pod has no namespace.
func (v *Viewed[T]) For(namespace string, all *T) *T {
	if v == nil || namespace == "" {
		return all
	}
	for i := range v.own {
		if v.own[i].namespace == namespace {
			return &v.own[i].value
		}
	}
	return &v.foreign
}

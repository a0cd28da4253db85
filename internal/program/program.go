// Package program describes the running program.
package program

import (
	"cmp"
	"runtime/debug"

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

// MustRegister implements refresh.Registry.
func (Registry) MustRegister(c ...metrics.Registerable) { legacyregistry.MustRegister(c...) }

// CustomMustRegister implements refresh.Registry.
func (Registry) CustomMustRegister(c ...metrics.StableCollector) {
	legacyregistry.CustomMustRegister(c...)
}

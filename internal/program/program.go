// Package program has what all programs share: version, metrics and warnings.
package program

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"strings"

	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
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

// Warn logs a warning at klog's level of warnings, which structured logs do not have. format is the format of the log: JSON has no
// levels, so the entry gets the key severity.
func Warn(format, message string, keysAndValues ...any) {
	if format == logsapi.JSONLogFormat {
		klog.Background().WithCallDepth(1).Info(message, append(keysAndValues, "severity", "warning")...)
		return
	}
	klog.WarningDepth(1, WarningText(message, keysAndValues...))
}

// WarningText returns the message, the keys and the values in klog's text format.
func WarningText(message string, keysAndValues ...any) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q", message)
	for i := 0; i+1 < len(keysAndValues); i += 2 {
		switch value := keysAndValues[i+1].(type) {
		case string, []string:
			fmt.Fprintf(&b, " %v=%q", keysAndValues[i], value)
		default:
			fmt.Fprintf(&b, " %v=%v", keysAndValues[i], value)
		}
	}
	return b.String()
}

// Package warning logs at klog's level of warnings. Structured logs have no such level.
package warning

import (
	"fmt"
	"strings"

	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
)

// Log logs a warning. format is the format of the log: JSON has no levels, so the entry gets the key severity.
func Log(format, message string, keysAndValues ...any) {
	if format == logsapi.JSONLogFormat {
		klog.Background().WithCallDepth(1).Info(message, append(keysAndValues, "severity", "warning")...)
		return
	}
	klog.WarningDepth(1, Text(message, keysAndValues...))
}

// Text returns the message, the keys and the values in klog's text format.
func Text(message string, keysAndValues ...any) string {
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

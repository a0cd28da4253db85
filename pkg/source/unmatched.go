package source

import (
	"slices"

	"k8s.io/klog/v2"
)

// named is how many nodes or series are named where there may be thousands.
const named = 5

// Few returns the beginning of a list for use in a log line, an error or a Batch.
func Few(list []string) []string { return list[:min(named, len(list))] }

// Unmatched logs what a source measured that belongs to no node: when it changes, and not at each refresh. The zero value
// has logged nothing yet.
type Unmatched struct{ last []string }

// Report logs msg with the number of what is unmatched and a few of it, if it differs from the last time. The list is
// sorted, and not changed afterwards.
func (u *Unmatched) Report(logger klog.Logger, unmatched []string, msg string, keysAndValues ...any) {
	if slices.Equal(unmatched, u.last) {
		return
	}
	u.last = unmatched
	keysAndValues = append(keysAndValues, "count", len(unmatched), "some", Few(unmatched))
	logger.WithCallDepth(1).V(2).Info(msg, keysAndValues...)
}

//go:build !kubernetes_1_34 && !kubernetes_1_35

package minor

import (
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
)

// EventRecorder is what a scheduler records events with.
type EventRecorder = events.EventRecorderLogger

// DoneChecker reports that an informer has synced.
type DoneChecker = cache.DoneChecker

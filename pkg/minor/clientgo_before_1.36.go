//go:build kubernetes_1_34 || kubernetes_1_35

package minor

import "k8s.io/client-go/tools/events"

// EventRecorder is what a scheduler records events with.
type EventRecorder = events.EventRecorder

// DoneChecker is cache.DoneChecker of Kubernetes 1.36. Nothing uses it before.
type DoneChecker interface {
	Name() string
	Done() <-chan struct{}
}

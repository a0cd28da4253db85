//go:build kubernetes_1_34 || kubernetes_1_35

package minor

import "k8s.io/client-go/tools/events"

// EventRecorder is what a scheduler records events with.
type EventRecorder = events.EventRecorder

// DoneChecker is the interface that client-go has from Kubernetes 1.36 on. Before, no informer is asked for one.
type DoneChecker interface {
	Name() string
	Done() <-chan struct{}
}

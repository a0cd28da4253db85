package sim

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// Mover decides which pods move in a replay. It is used by one goroutine at a time.
type Mover interface {
	// Moves returns the pods to evict now.
	Moves(ctx context.Context, now time.Time) ([]*corev1.Pod, error)
	// Placed notes the pod in place of an evicted one, which may have no node yet.
	Placed(evicted types.UID, replacement *corev1.Pod)
	// Ready ends a move, because the replacement runs. It reports whether the replacement landed as planned.
	Ready(ctx context.Context, evicted types.UID, replacement *corev1.Pod, now time.Time) (landed bool)
}

// MoverInput is a cluster in simulated time.
type MoverInput struct {
	Scheduler *Scheduler
	// SchedulerName is that of the pods. Load reads the load of nodes, and Usage that of a pod; false if it is not known.
	SchedulerName string
	Load          explain.LoadReader
	Usage         func(pod *corev1.Pod) (podusage.Amounts, bool)
}

// MoverKind makes movers. Its zero value makes none.
type MoverKind struct {
	// Name selects the movers. Flag, which Usage describes, is the flag of their configuration's file.
	Name, Flag, Usage string
	// Open reads the file; an empty name is the default configuration. Errors name the flag.
	Open func(file string) (start func(MoverInput) Mover, err error)
}

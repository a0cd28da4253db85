package cluster

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

// Origin says which pod another one replaces, and why that one was moved.
type Origin struct {
	Pod  string    `json:"pod"`
	From string    `json:"from"`
	At   time.Time `json:"at"`
	Why  string    `json:"why"`
}

func (o *Origin) String() string {
	return fmt.Sprintf("%s, moved from %s at %s: %s", text.Excerpt(o.Pod), text.Excerpt(o.From), o.At.UTC().Format(time.RFC3339),
		text.Excerpt(o.Why))
}

// ReadOrigins returns the origins of moved pods, by the UID of their replacements. Nil is a program that moves no pods.
type ReadOrigins func(context.Context, kubernetes.Interface) (map[types.UID]*Origin, error)

// Of calls the function, unless it is nil.
func (read ReadOrigins) Of(ctx context.Context, client kubernetes.Interface) (map[types.UID]*Origin, error) {
	if read == nil {
		return nil, nil
	}
	return read(ctx, client)
}

package cluster

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Arrivals creates pods at intervals.
type Arrivals struct {
	cancel  context.CancelFunc
	done    sync.WaitGroup
	created atomic.Int64
	err     error
}

// Arrive creates the pods number 1, 2 and so on, one each interval, until End is called or ctx ends.
func (c *Cluster) Arrive(ctx context.Context, interval time.Duration, pod func(number int) Pod) *Arrivals {
	arriving, cancel := context.WithCancel(ctx)
	a := &Arrivals{cancel: cancel}
	a.done.Go(func() {
		_ = wait.PollUntilContextCancel(arriving, interval, false, func(context.Context) (bool, error) {
			// End must not interrupt a creation: Created would be wrong.
			if a.err = c.CreatePods(context.WithoutCancel(ctx), pod(a.Created()+1)); a.err == nil {
				a.created.Add(1)
			}
			return a.err != nil, nil
		})
	})
	return a
}

// Created is the number of pods created so far.
func (a *Arrivals) Created() int { return int(a.created.Load()) }

// End stops the arrivals. It returns the number of pods created, and the error that ended them before. It may be called again.
func (a *Arrivals) End() (int, error) {
	a.cancel()
	a.done.Wait()
	return a.Created(), a.err
}

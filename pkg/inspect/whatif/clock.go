package whatif

import (
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// Clock is the real clock until it is stopped. A stopped clock keeps load from aging while many pods are placed.
// Timers go on. The zero value is ready.
type Clock struct {
	clock.RealClock
	stopped atomic.Pointer[time.Time]
}

var _ clock.WithTicker = &Clock{}

// Stop makes all later calls of Now return the present time.
func (c *Clock) Stop() { c.stopped.Store(new(c.RealClock.Now())) }

// Now implements clock.PassiveClock.
func (c *Clock) Now() time.Time {
	if at := c.stopped.Load(); at != nil {
		return *at
	}
	return c.RealClock.Now()
}

// Since implements clock.PassiveClock.
func (c *Clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

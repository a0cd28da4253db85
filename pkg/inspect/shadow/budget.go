package shadow

import (
	"time"

	"k8s.io/utils/clock"
)

// burst is how long a budget saves up what was not spent.
const burst = time.Minute

// budget bounds work to a share of one core. It is measured by the clock, which is no less than the processor time of a goroutine.
type budget struct {
	clock clock.PassiveClock
	share float64
	left  time.Duration
	at    time.Time
}

func newBudget(c clock.PassiveClock, share float64) budget {
	return budget{clock: c, share: share, left: time.Duration(share * float64(burst)), at: c.Now()}
}

// spend deducts the time since began, and returns it.
func (b *budget) spend(began time.Time) time.Duration {
	spent := b.clock.Since(began)
	b.earn()
	b.left -= spent
	return spent
}

func (b *budget) exhausted() bool {
	b.earn()
	return b.left <= 0
}

func (b *budget) earn() {
	now := b.clock.Now()
	b.left = min(b.left+time.Duration(b.share*float64(now.Sub(b.at))), time.Duration(b.share*float64(burst)))
	b.at = now
}

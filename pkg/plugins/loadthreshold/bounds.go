package loadthreshold

import (
	"sync"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/descriptor"
)

// bounds counts nodes by load line, once for each profile. It is safe for concurrent use.
type bounds struct {
	mu sync.Mutex
	// counts are by percent; those at 0 are not used.
	counts [load.ResourceCount][101]int
}

// change counts a node whose line changed, and shows the lowest and the highest line. The zero line stands for no node.
func (b *bounds) change(before, now line, shown *descriptor.Counters) {
	if before == now {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for r := range b.counts {
		counts := &b.counts[r]
		counts[before[r]]--
		counts[now[r]]++
		lowest, highest := 0, 0
		for percent := len(counts) - 1; percent > 0; percent-- {
			if counts[percent] > 0 {
				lowest, highest = percent, max(highest, percent)
			}
		}
		shown.Lines(load.Resource(r), lowest, highest)
	}
}

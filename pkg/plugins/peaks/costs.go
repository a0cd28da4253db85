package peaks

import (
	"math/bits"
	"sync/atomic"
)

// costs are the costs of one cycle's candidates, in the order of the Score calls. Neither their number nor their order is known
// before. It is safe for concurrent use. The zero value is empty.
type costs struct {
	count atomic.Int64
	// chunks double in size, so that a cycle allocates few of them.
	chunks [maxChunks]atomic.Pointer[[]float64]
}

const (
	firstChunk = 128
	// maxChunks is enough for half a million nodes.
	maxChunks = 12
)

// add returns the position of the cost; ok is false if there is no room.
func (c *costs) add(cost float64) (position int64, ok bool) {
	position = c.count.Add(1) - 1
	number, offset := chunkOf(position)
	if number >= maxChunks {
		return 0, false
	}
	chunk := c.chunks[number].Load()
	if chunk == nil {
		allocated := make([]float64, firstChunk<<number)
		c.chunks[number].CompareAndSwap(nil, &allocated)
		chunk = c.chunks[number].Load()
	}
	(*chunk)[offset] = cost
	return position, true
}

// at returns the cost at a position that add has returned.
func (c *costs) at(position int64) float64 {
	number, offset := chunkOf(position)
	return (*c.chunks[number].Load())[offset]
}

func chunkOf(position int64) (number int, offset int64) {
	number = bits.Len64(uint64(position/firstChunk+1)) - 1
	return number, position - firstChunk*(1<<number-1)
}

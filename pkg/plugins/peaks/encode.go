package peaks

import "math"

const signBit = 1 << 63

// encode returns the cost as a number of at least 0, in the order of the costs. The last bit of the cost is lost.
//
// A score holds its cost, not a reference to a cost in the cycle state. Kubernetes 1.37 normalizes scores again for the next pod,
// whose cycle has another state. The state would also need a lock in Score, or memory for all nodes.
func encode(cost float64) int64 {
	bits := math.Float64bits(cost)
	if cost < 0 {
		bits = ^bits
	} else {
		bits |= signBit
	}
	return int64(bits >> 1)
}

func decode(code int64) float64 {
	bits := uint64(code) << 1
	if bits&signBit == 0 {
		return math.Float64frombits(^bits)
	}
	return math.Float64frombits(bits &^ signBit)
}

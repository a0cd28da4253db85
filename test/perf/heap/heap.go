// Package heap measures the heap of this process.
package heap

import "runtime"

// Live is the size in bytes of all objects that can be reached.
func Live() int64 {
	for range 2 { // what sync.Pools hold lives for one more collection
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

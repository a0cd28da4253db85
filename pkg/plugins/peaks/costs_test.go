package peaks

import (
	"sync"
	"testing"
)

func TestCosts(t *testing.T) {
	var c costs
	const goroutines, each = 8, 5000
	positions := make([][]int64, goroutines)
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			for i := range each {
				position, ok := c.add(float64(g*each + i))
				if !ok {
					t.Error("no room")
				}
				positions[g] = append(positions[g], position)
			}
		})
	}
	group.Wait()
	for g := range goroutines {
		for i, position := range positions[g] {
			if got, want := c.at(position), float64(g*each+i); got != want {
				t.Fatalf("cost %v at position %d, want %v", got, position, want)
			}
		}
	}
}

// Chunks of 128, 256, 512 … begin at 0, 128, 384, 896 …; twelve of them end at 128·(2¹² − 1).
func TestCosts_Chunks(t *testing.T) {
	for _, tc := range []struct {
		position   int64
		wantNumber int
		wantOffset int64
	}{
		{0, 0, 0}, {127, 0, 127}, {128, 1, 0}, {383, 1, 255}, {384, 2, 0}, {896, 3, 0}, {524159, 11, 262143}, {524160, 12, 0},
	} {
		if number, offset := chunkOf(tc.position); number != tc.wantNumber || offset != tc.wantOffset {
			t.Errorf("position %d: chunk %d, offset %d; want %d, %d", tc.position, number, offset, tc.wantNumber, tc.wantOffset)
		}
	}
	var c costs
	c.count.Store(524160)
	if position, ok := c.add(1); ok {
		t.Errorf("position %d beyond the last chunk", position)
	}
}

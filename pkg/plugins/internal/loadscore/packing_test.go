package loadscore

import (
	"math"
	"testing"
)

func TestPacking(t *testing.T) {
	for _, tc := range []struct {
		name                string
		utilization, target float64
		want                float64
	}{
		// (100-40)·0/40 + 40
		{"an idle node scores the target", 0, 40, 40},
		// (100-40)·10/40 + 40
		{"below the target it rises", 10, 40, 55},
		// (100-40)·25/40 + 40
		{"below the target it rises further", 25, 40, 77.5},
		// (100-40)·40/40 + 40
		{"at the target it is highest", 40, 40, 100},
		// 40·(100-50)/(100-40)
		{"beyond the target it falls", 50, 40, 100.0 / 3},
		// 40·(100-100)/(100-40)
		{"a full node scores 0", 100, 40, 0},
		{"an overfull node scores 0", 170, 40, 0},
		// (100-1)·1/1 + 1
		{"the lowest target spreads", 1, 1, 100},
		// 99·(100-99.5)/(100-99)
		{"the highest target packs to the brim", 99.5, 99, 49.5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Packing(tc.utilization, tc.target); math.Abs(got-tc.want) > 1e-9 {
				t.Errorf("Packing(%v, %v) = %v, want %v", tc.utilization, tc.target, got, tc.want)
			}
		})
	}
}

func TestPacking_StaysInRange(t *testing.T) {
	for target := 1.0; target <= 99; target++ {
		for utilization := 0.0; utilization <= 200; utilization += 0.5 {
			if got := Packing(utilization, target); got < 0 || got > 100 || math.IsNaN(got) {
				t.Fatalf("Packing(%v, %v) = %v, want a score in [0, 100]", utilization, target, got)
			}
		}
	}
}

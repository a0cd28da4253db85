package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBar(t *testing.T) {
	// A bar has 30 cells of 3.33 % each. The load line at 40 % is the cell after the twelfth.
	tests := []struct {
		name        string
		utilization float64
		line        float64
		want        string
	}{
		{"an idle node", 0, 0.40, "············|·················"},
		{"a load that rounds to no cell", 0.016, 0.40, "············|·················"},
		{"a load that rounds to one cell", 0.017, 0.40, "█···········|·················"},
		{"a load below the line", 0.25, 0.40, "████████····|·················"}, // 7.5, rounded up
		{"a load at the line", 0.40, 0.40, "████████████|·················"},
		{"a load above the line", 0.50, 0.40, "████████████|██···············"}, // 15 cells, one of them is the mark
		{"a full node", 1, 0.40, "████████████|█████████████████"},
		{"a load above capacity", 1.3, 0.40, "████████████|█████████████████"},
		{"a load below 0", -0.1, 0.40, "············|·················"},
		{"a line at the end", 0.5, 1, "███████████████··············|"},
		{"a line at the start", 0.5, 0, "|██████████████···············"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, paint{}.bar(tt.utilization, tt.line)); diff != "" {
				t.Errorf("bar (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBarColors(t *testing.T) {
	const green, yellow, red, reset = "\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[0m"
	tests := []struct {
		name        string
		utilization float64
		want        string
	}{
		{"below the load line", 0.10, green + "███" + reset + "·········|·················"},
		{"above the load line", 0.50, yellow + "████████████" + reset + "|" + yellow + "██" + reset + "···············"},
		{"hot", 0.90, red + "████████████" + reset + "|" + red + "██████████████" + reset + "···"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, paint{on: true}.bar(tt.utilization, 0.40)); diff != "" {
				t.Errorf("bar (-want +got):\n%s", diff)
			}
		})
	}
}

package bar

import (
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func TestBar(t *testing.T) {
	// A bar has 30 cells of 3.33 % each. The load line at 40 % is the cell after the twelfth.
	line := func(measured, expected, line float64) Bar {
		return Bar{Cells: 30, Measured: measured, Expected: expected, Line: line}
	}
	for _, tt := range []struct {
		name string
		bar  Bar
		want string
	}{
		{"an idle node", line(0, 0, 0.40), "············|·················"},
		{"a load that rounds to no cell", line(0.016, 0, 0.40), "············|·················"},
		{"a load that rounds to one cell", line(0.017, 0, 0.40), "█···········|·················"},
		{"a load below the line", line(0.25, 0, 0.40), "████████····|·················"}, // 7.5, rounded up
		{"a load at the line", line(0.40, 0, 0.40), "████████████|·················"},
		{"a load above the line", line(0.50, 0, 0.40), "████████████|██···············"}, // 15 cells, one of them is the mark
		{"a full node", line(1, 0, 0.40), "████████████|█████████████████"},
		{"a load above capacity", line(1.3, 0, 0.40), "████████████|█████████████████"},
		{"a load below 0", line(-0.1, 0, 0.40), "············|·················"},
		{"a line at the end", line(0.5, 0, 1), "███████████████··············|"},
		{"a line at the start", line(0.5, 0, 0.01), "|██████████████···············"},
		{"no line", Bar{Cells: 10, Measured: 0.5}, "█████·····"},
		{"a target", Bar{Cells: 10, Measured: 0.5, Target: 0.4}, "████◎·····"},
		{"expected load is drawn after measured load", line(0.20, 0.10, 0.40), "██████▒▒▒···|·················"}, // 6 cells, then 9 in all
		{"expected load on both sides of the line", line(0.20, 0.30, 0.40), "██████▒▒▒▒▒▒|▒▒···············"},
		{"measured load fills the width", line(1, 0.5, 0.40), "████████████|█████████████████"},
		{"expected load below 0 takes nothing away", line(0.20, -0.10, 0.40), "██████······|·················"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check.Equal(t, "bar", tt.want, tt.bar.String())
		})
	}
}

func TestBar_Colored(t *testing.T) {
	const green, yellow, red, reset = "\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[m"
	colored := func(measured, expected float64) Bar {
		return Bar{Cells: 30, Measured: measured, Expected: expected, Line: 0.40, Colored: true}
	}
	for _, tt := range []struct {
		name string
		bar  Bar
		want string
	}{
		{"below the load line", colored(0.10, 0), green + "███" + reset + "·········|·················"},
		{"above the load line", colored(0.50, 0), yellow + "████████████" + reset + "|" + yellow + "██" + reset + "···············"},
		{"above the load line by expected load", colored(0.20, 0.30), yellow + "██████▒▒▒▒▒▒" + reset + "|" + yellow + "▒▒" + reset + "···············"},
		{"above the target", Bar{Cells: 10, Measured: 0.62, Target: 0.40, Colored: true}, green + "████" + reset + "◎" + green + "█" + reset + "····"},
		{"hot", colored(0.90, 0), red + "████████████" + reset + "|" + red + "██████████████" + reset + "···"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check.Equal(t, "bar", tt.want, tt.bar.String())
		})
	}
}

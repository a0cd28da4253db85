// Package bar draws the load of a node as a bar of text.
package bar

import (
	"math"
	"strings"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// Bar is the load of a node. The whole width is 1, such as the capacity of the node.
type Bar struct {
	// Cells is the width in columns. ≥ 1.
	Cells int
	// Measured is drawn first, and Expected after it.
	Measured, Expected float64
	// Line, or else Target, is marked: a line with |, a target with ◎. Neither is if 0.
	Line, Target float64
	Colored      bool
}

// String draws the bar: █ is measured, ▒ expected, · free.
func (b Bar) String() string {
	measured := b.cells(b.Measured)
	filled := max(b.cells(b.Measured+b.Expected), measured)
	at, mark := b.Line, "|"
	if b.Line == 0 {
		at, mark = b.Target, "◎"
	}
	if at == 0 {
		return b.draw(0, b.Cells, measured, filled)
	}
	cell := min(b.cells(at), b.Cells-1)
	return b.draw(0, cell, measured, filled) + mark + b.draw(cell+1, b.Cells, measured, filled)
}

func (b Bar) cells(fraction float64) int {
	return min(max(int(math.Round(fraction*float64(b.Cells))), 0), b.Cells)
}

func (b Bar) draw(from, to, measured, filled int) string {
	until := func(end int) int { return min(max(end-from, 0), to-from) }
	solid := strings.Repeat("█", until(measured)) + strings.Repeat("▒", until(filled)-until(measured))
	return terminal.Style{Color: b.Colored}.Paint(b.Color(), solid) + strings.Repeat("·", to-from-until(filled))
}

// Color is green up to the line, yellow above it, and red if the node is hot. A target changes no color.
func (b Bar) Color() terminal.Color {
	switch u := b.Measured + b.Expected; {
	case u > load.Hot:
		return terminal.Red
	case b.Line > 0 && u > b.Line:
		return terminal.Yellow
	}
	return terminal.Green
}

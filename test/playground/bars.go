package main

import (
	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/bar"
)

// barCells is the width of a bar. The whole width is the capacity of a node.
const barCells = 30

// bar draws a utilization as a bar and marks the load line with |.
func (p paint) bar(utilization, line float64) string {
	return bar.Bar{Cells: barCells, Measured: utilization, Line: line, HasLine: true, Colored: p.on}.String()
}

// paint colors text for a terminal, if it is on.
type paint struct{ on bool }

func (p paint) red(s string) string  { return p.with(terminal.Red, s) }
func (p paint) bold(s string) string { return p.with(terminal.Bold, s) }

func (p paint) with(color terminal.Color, s string) string {
	return terminal.Style{Color: p.on}.Paint(color, s)
}

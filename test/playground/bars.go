package main

import "github.com/plimsoll-scheduler/plimsoll/pkg/inspect/bar"

// barCells is the width of a bar. The whole width is the capacity of a node.
const barCells = 30

// hot is the utilization above which a node is called hot.
const hot = bar.Hot

// bar draws a utilization as a bar and marks the load line with |.
func (p paint) bar(utilization, line float64) string {
	return bar.Bar{Cells: barCells, Measured: utilization, Line: line, HasLine: true, Colored: p.on}.String()
}

// paint colors text for a terminal, if it is on.
type paint struct{ on bool }

func (p paint) red(s string) string  { return p.with(bar.Red, s) }
func (p paint) bold(s string) string { return p.with("1", s) }

func (p paint) with(color, s string) string {
	if !p.on {
		return s
	}
	return bar.Paint(color, s)
}

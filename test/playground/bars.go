package main

import (
	"math"
	"strings"
)

const (
	// barCells is the width of a bar. The whole width is the capacity of a node.
	barCells = 30
	// hot is the utilization above which a node is called hot.
	hot = 0.80
)

// bar draws a utilization as a bar and marks the load line with |.
func (p paint) bar(utilization, line float64) string {
	filled := min(max(int(math.Round(utilization*barCells)), 0), barCells)
	mark := min(max(int(math.Round(line*barCells)), 0), barCells-1)
	cells := make([]string, 0, 3)
	color := p.load(utilization, line)
	draw := func(from, to int) {
		solid := min(max(filled-from, 0), to-from)
		cells = append(cells, color(strings.Repeat("█", solid))+strings.Repeat("·", to-from-solid))
	}
	draw(0, mark)
	cells = append(cells, "|")
	draw(mark+1, barCells)
	return strings.Join(cells, "")
}

// load returns the color of a utilization: green up to the load line, yellow above it, red if the node is hot.
func (p paint) load(utilization, line float64) func(string) string {
	switch {
	case utilization > hot:
		return p.red
	case utilization > line:
		return p.yellow
	}
	return p.green
}

// paint colors text for a terminal, if it is on.
type paint struct{ on bool }

func (p paint) red(s string) string    { return p.with("31", s) }
func (p paint) green(s string) string  { return p.with("32", s) }
func (p paint) yellow(s string) string { return p.with("33", s) }
func (p paint) bold(s string) string   { return p.with("1", s) }

func (p paint) with(code, s string) string {
	if !p.on || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

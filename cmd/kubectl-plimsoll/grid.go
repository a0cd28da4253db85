package main

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/bar"
)

// column is a column of a table of rows of type T.
type column[T any] struct {
	header string
	// short replaces header where the terminal is narrow; empty is header.
	short string
	text  func(T) string
	// color returns the color of the text, or an empty string; nil is no color.
	color func(T) string
	// drop is the step at which the column is left out where the terminal is narrow; 0 is never.
	drop int
	// elastic columns are cut where the terminal is narrow. A table has at most one.
	elastic bool

	// textWidth is the width of the widest text.
	textWidth int
}

// grid is a table that fits a terminal.
type grid[T any] struct {
	columns []column[T]
	widths  []int
	// colored prints cells in color.
	colored bool
}

const (
	columnGap = "  "
	// elasticWidth is what an elastic column is cut to before a column is dropped, and narrowestElastic after all are.
	elasticWidth, narrowestElastic = 24, 8
)

// newGrid returns a table of the columns that is at most as wide as the terminal, if that can be. Where the terminal is narrow,
// headers are shortened, then columns dropped step by step, and the elastic column is cut. s.width 0 is no limit.
func newGrid[T any](columns []column[T], rows []T, s style) *grid[T] {
	g := &grid[T]{columns: slices.Clone(columns), colored: s.colour}
	lastStep := 0
	for i := range g.columns {
		c := &g.columns[i]
		for j := range rows {
			c.textWidth = max(c.textWidth, utf8.RuneCountInString(c.text(rows[j])))
		}
		lastStep = max(lastStep, c.drop)
	}
	if g.fit(s.width, math.MaxInt) {
		return g
	}
	for i := range g.columns {
		g.columns[i].header = cmp.Or(g.columns[i].short, g.columns[i].header)
	}
	for step := range lastStep + 1 {
		g.columns = slices.DeleteFunc(g.columns, func(c column[T]) bool { return c.drop > 0 && c.drop <= step })
		if g.fit(s.width, math.MaxInt) || g.fit(s.width, elasticWidth) {
			return g
		}
	}
	g.fit(s.width, narrowestElastic)
	return g
}

// fit sets the widths, and reports whether the table is no wider than the given width. The elastic column is cut at most to the
// given width, and no further than needed.
func (g *grid[T]) fit(width, elastic int) bool {
	g.widths = make([]int, len(g.columns))
	cut := -1
	for i, c := range g.columns {
		g.widths[i] = max(c.textWidth, utf8.RuneCountInString(c.header))
		if c.elastic && g.widths[i] > elastic {
			cut = i
		}
	}
	if excess := g.width() - width; width > 0 && cut >= 0 && excess > 0 {
		g.widths[cut] = max(g.widths[cut]-excess, elastic)
	}
	return width == 0 || g.width() <= width
}

// width is that of the table.
func (g *grid[T]) width() int {
	width := len(columnGap) * (len(g.widths) - 1)
	for _, w := range g.widths {
		width += w
	}
	return width
}

// add adds a last column of the given width.
func (g *grid[T]) add(c column[T], width int) {
	g.columns, g.widths = append(g.columns, c), append(g.widths, width)
}

// header returns the line with the headers.
func (g *grid[T]) header() string {
	return g.line(func(c *column[T]) (text, color string) { return c.header, "" })
}

// row returns the line of a row.
func (g *grid[T]) row(row T) string {
	return g.line(func(c *column[T]) (text, color string) {
		if c.color != nil && g.colored {
			color = c.color(row)
		}
		return c.text(row), color
	})
}

func (g *grid[T]) line(cell func(*column[T]) (text, color string)) string {
	var b strings.Builder
	for i := range g.columns {
		if i > 0 {
			b.WriteString(columnGap)
		}
		text, color := cell(&g.columns[i])
		text = cutText(text, g.widths[i])
		padding := g.widths[i] - utf8.RuneCountInString(text)
		if color != "" {
			text = bar.Paint(color, text)
		}
		b.WriteString(text)
		if i < len(g.columns)-1 {
			b.WriteString(strings.Repeat(" ", max(padding, 0)))
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// cutText cuts a text at the given number of columns. It must not contain colors, unless it is short enough.
func cutText(text string, width int) string {
	if len(text) <= width || utf8.RuneCountInString(text) <= width || strings.Contains(text, "\x1b") {
		return text
	}
	return string([]rune(text)[:max(width-1, 0)]) + "…"
}

package terminal

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

// Column is a column of a table of rows of type T.
type Column[T any] struct {
	Header string
	// Short replaces Header on a narrow terminal, unless empty.
	Short string
	Text  func(T) string
	// Color returns the color of the text; nil is none.
	Color func(T) Color
	// Drop is the step at which a narrow terminal leaves the column out; 0 is never.
	Drop int
	// HideEmpty leaves the column out if all its texts are "-".
	HideEmpty bool
	// Elastic columns are cut on a narrow terminal. A table has at most one.
	Elastic bool

	// drawn reports whether Text is printed without escaping.
	drawn     bool
	textWidth int
}

func (c *Column[T]) cell(row T) string {
	if c.drawn {
		return c.Text(row)
	}
	return text.Escape(c.Text(row))
}

// Table is a table that fits a terminal.
type Table[T any] struct {
	columns []Column[T]
	rows    []T
	widths  []int
	style   Style
}

const (
	gap = "  "
	// The elastic column is cut to elasticWidth before a column is dropped, and to narrowestElastic after all are.
	elasticWidth, narrowestElastic = 24, 8
)

// NewTable returns a table for the width of the terminal.
// A narrow terminal shortens headers, then drops columns step by step and cuts the elastic column.
func NewTable[T any](columns []Column[T], rows []T, s Style) *Table[T] {
	t := &Table[T]{columns: slices.Clone(columns), rows: rows, style: s}
	t.columns = slices.DeleteFunc(t.columns, func(c Column[T]) bool {
		return c.HideEmpty && !slices.ContainsFunc(rows, func(row T) bool { return c.Text(row) != "-" })
	})
	lastStep := 0
	for i := range t.columns {
		c := &t.columns[i]
		for _, row := range rows {
			c.textWidth = max(c.textWidth, ansi.StringWidth(c.cell(row)))
		}
		lastStep = max(lastStep, c.Drop)
	}
	if t.fit(math.MaxInt) {
		return t
	}
	for i := range t.columns {
		t.columns[i].Header = cmp.Or(t.columns[i].Short, t.columns[i].Header)
	}
	for step := range lastStep + 1 {
		t.columns = slices.DeleteFunc(t.columns, func(c Column[T]) bool { return c.Drop > 0 && c.Drop <= step })
		if t.fit(math.MaxInt) || t.fit(elasticWidth) {
			return t
		}
	}
	t.fit(narrowestElastic)
	return t
}

// fit sets the widths, and reports whether the table fits. It cuts the elastic column as little as needed, at most to minElastic.
func (t *Table[T]) fit(minElastic int) bool {
	t.widths = make([]int, len(t.columns))
	cut := -1
	for i, c := range t.columns {
		t.widths[i] = max(c.textWidth, ansi.StringWidth(c.Header))
		if c.Elastic && t.widths[i] > minElastic {
			cut = i
		}
	}
	limit := t.style.Width
	if excess := t.Width() - limit; limit > 0 && cut >= 0 && excess > 0 {
		t.widths[cut] = max(t.widths[cut]-excess, minElastic)
	}
	return limit == 0 || t.Width() <= limit
}

// Width returns the width of the table in columns.
func (t *Table[T]) Width() int {
	width := len(gap) * (len(t.widths) - 1)
	for _, w := range t.widths {
		width += w
	}
	return width
}

// AddDrawn adds a last column of at most maxWidth, if the terminal has room for minWidth. draw may return text with colors.
func (t *Table[T]) AddDrawn(header string, minWidth, maxWidth int, draw func(row T, width int) string) {
	width := min(t.style.Width-t.Width()-len(gap), maxWidth)
	if !t.style.Color || width < minWidth {
		return
	}
	t.columns = append(t.columns, Column[T]{Header: header, Text: func(row T) string { return draw(row, width) }, drawn: true})
	t.widths = append(t.widths, width)
}

// Header returns the line with the headers.
func (t *Table[T]) Header() string {
	return t.line(func(c *Column[T]) (string, Color) { return c.Header, 0 })
}

// Row returns the line of a row.
func (t *Table[T]) Row(row T) string {
	return t.line(func(c *Column[T]) (string, Color) {
		if c.Color == nil {
			return c.cell(row), 0
		}
		return c.cell(row), c.Color(row)
	})
}

func (t *Table[T]) line(cell func(*Column[T]) (string, Color)) string {
	var b strings.Builder
	for i := range t.columns {
		if i > 0 {
			b.WriteString(gap)
		}
		text, color := cell(&t.columns[i])
		text = ansi.Truncate(text, t.widths[i], "…")
		b.WriteString(t.style.Paint(color, text))
		if i < len(t.columns)-1 {
			b.WriteString(strings.Repeat(" ", max(t.widths[i]-ansi.StringWidth(text), 0)))
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// Print prints the table.
func (t *Table[T]) Print(p *Printer, headers bool) {
	if headers {
		p.text.WriteString(t.Header() + "\n")
	}
	for _, row := range t.rows {
		p.text.WriteString(t.Row(row) + "\n")
	}
}

// TextTable returns a table of texts, of any width. A row may have fewer cells than there are headers.
func TextTable(headers []string, rows [][]string) *Table[[]string] {
	columns := make([]Column[[]string], len(headers))
	for i, header := range headers {
		columns[i] = Column[[]string]{Header: text.Escape(header), Text: func(row []string) string {
			if i >= len(row) {
				return ""
			}
			return row[i]
		}}
	}
	return NewTable(columns, rows, Style{})
}

package terminal

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

// Column is a column of a table of rows of type T.
type Column[T any] struct {
	Header string
	Text   func(T) string
	// Color returns the color of the text; nil is none.
	Color func(T) Color
	// HideEmpty leaves the column out if all its texts are "-".
	HideEmpty bool
}

// Table is a table with columns of equal width.
type Table[T any] struct {
	columns []Column[T]
	rows    []T
	widths  []int
}

const gap = "  "

// NewTable returns a table, of any width.
func NewTable[T any](columns []Column[T], rows []T) *Table[T] {
	t := &Table[T]{rows: rows}
	for _, c := range columns {
		width, empty := ansi.StringWidth(c.Header), true
		for _, row := range rows {
			text := text.Escape(c.Text(row))
			width, empty = max(width, ansi.StringWidth(text)), empty && text == "-"
		}
		if !c.HideEmpty || !empty {
			t.columns, t.widths = append(t.columns, c), append(t.widths, width)
		}
	}
	return t
}

// Width returns the width of the table in columns.
func (t *Table[T]) Width() int {
	width := len(gap) * (len(t.widths) - 1)
	for _, w := range t.widths {
		width += w
	}
	return width
}

// Print prints the table.
func (t *Table[T]) Print(p *Printer, headers bool) {
	if headers {
		t.print(p, func(c *Column[T]) (string, Color) { return c.Header, 0 })
	}
	for _, row := range t.rows {
		t.print(p, func(c *Column[T]) (string, Color) {
			if c.Color == nil {
				return text.Escape(c.Text(row)), 0
			}
			return text.Escape(c.Text(row)), c.Color(row)
		})
	}
}

func (t *Table[T]) print(p *Printer, cell func(*Column[T]) (string, Color)) {
	var line strings.Builder
	for i := range t.columns {
		text, color := cell(&t.columns[i])
		line.WriteString(p.Paint(color, text) + strings.Repeat(" ", t.widths[i]-ansi.StringWidth(text)) + gap)
	}
	p.text.WriteString(strings.TrimRight(line.String(), " ") + "\n")
}

// TextTable returns a table of texts. A row may have fewer cells than there are headers.
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
	return NewTable(columns, rows)
}

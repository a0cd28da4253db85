// Package terminal writes text and tables that cannot control a terminal.
package terminal

import (
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

// Color is a color of text, or Bold. The zero value is no color.
type Color = ansi.Attr

// Colors.
const (
	Bold   = ansi.AttrBold
	Red    = ansi.AttrRedForegroundColor
	Green  = ansi.AttrGreenForegroundColor
	Yellow = ansi.AttrYellowForegroundColor
)

// Style is what the output can show.
type Style struct {
	Color bool
	// Width is the width of the terminal in columns; 0 if the output is no terminal.
	Width int
}

// StyleOf returns the style of an output. NO_COLOR turns colors off.
func StyleOf(w io.Writer) Style {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return Style{}
	}
	s := Style{Color: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	if width, _, err := term.GetSize(int(file.Fd())); err == nil {
		s.Width = width
	}
	return s
}

// Paint returns text in a color, if the style has colors.
func (s Style) Paint(c Color, text string) string {
	if !s.Color || c == 0 || text == "" {
		return text
	}
	return ansi.NewStyle(c).Styled(text)
}

// Printer collects text.
type Printer struct {
	Style
	text strings.Builder
}

// Painted is text that Printf does not escape.
type Painted string

// Bold returns text in bold.
func (p *Printer) Bold(format string, args ...any) Painted {
	return Painted(p.Paint(Bold, fmt.Sprintf(format, escaped(args)...)))
}

// Painted returns text in a color.
func (p *Printer) Painted(c Color, s string) Painted { return Painted(p.Paint(c, text.Escape(s))) }

// Printf adds text. Control characters in strings and errors of args are escaped.
func (p *Printer) Printf(format string, args ...any) { fmt.Fprintf(&p.text, format, escaped(args)...) }

// String returns the text.
func (p *Printer) String() string { return p.text.String() }

func escaped(args []any) []any {
	args = slices.Clone(args)
	for i, arg := range args {
		switch arg := arg.(type) {
		case Painted:
		case error:
			args[i] = text.Escape(arg.Error())
		default:
			if v := reflect.ValueOf(arg); v.Kind() == reflect.String {
				args[i] = text.Escape(v.String())
			}
		}
	}
	return args
}

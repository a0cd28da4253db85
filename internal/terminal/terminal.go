// Package terminal writes text and tables that fit a terminal and cannot control it.
package terminal

import (
	"cmp"
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
	// Color allows colors and bars.
	Color bool
	// Width is the width of the terminal in columns; 0 if the output is no terminal.
	Width int
	// ASCII replaces signs such as ✓ with ASCII characters.
	ASCII bool
}

// StyleOf returns the style of an output. NO_COLOR turns colors off. A locale without UTF-8, such as C, turns ASCII on.
func StyleOf(w io.Writer) Style {
	locale := strings.ToLower(cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG")))
	// Containers have no locale, though the user's terminal may show UTF-8.
	s := Style{ASCII: locale != "" && !strings.Contains(locale, "utf-8") && !strings.Contains(locale, "utf8")}
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return s
	}
	s.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	if width, _, err := term.GetSize(int(file.Fd())); err == nil {
		s.Width = width
	}
	return s
}

// asciiForms replaces signs with characters of the same width, so that columns stay aligned.
var asciiForms = strings.NewReplacer("✓", "+", "✗", "x", "█", "#", "▒", "=", "·", ".", "×", "*", "…", "~", "–", "-")

// Encode returns the text in characters that the output can show.
func (s Style) Encode(text string) string {
	if s.ASCII {
		return asciiForms.Replace(text)
	}
	return text
}

// Paint returns text in a color, if the style has colors.
func (s Style) Paint(c Color, text string) string {
	if !s.Color || c == 0 || text == "" {
		return text
	}
	return ansi.NewStyle(c).Styled(text)
}

// Cut cuts a line at the width of the terminal.
func (s Style) Cut(line string) string {
	if s.Width == 0 {
		return line
	}
	return ansi.Truncate(line, s.Width, "…")
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
func (p *Printer) String() string { return p.Encode(p.text.String()) }

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

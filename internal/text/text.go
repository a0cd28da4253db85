// Package text prepares text for logs, errors and tables.
package text

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// excerptBytes is the most that Excerpt returns of one text.
	excerptBytes = 256
	// listBytes is the most that FirstN returns of one list.
	listBytes = 512
	// shown is how many elements of a list FirstN shows.
	shown = 5
)

// Excerpt returns a text that a server wrote as logs, errors and events may show it: on one line, with control characters
// escaped, and cut at 256 bytes. Every text of a server passes it where it enters. An Excerpt of an Excerpt is the same text.
func Excerpt(text string) string {
	if isPlain(text) {
		return text
	}
	// Escaping makes no text shorter, but white space does: cut generously first, so that the work is bounded.
	return cut(Escape(strings.Join(strings.Fields(cut(text, 8*excerptBytes)), " ")), excerptBytes)
}

// Escape escapes characters that are not printable, as Go source does: \n, \x1b, \u202e. They could control a terminal or forge lines.
func Escape(text string) string {
	if !strings.ContainsFunc(text, isUnprintable) && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x` + strconv.FormatUint(uint64(text[0]), 16))
		case strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		text = text[size:]
	}
	return b.String()
}

func isUnprintable(r rune) bool { return !strconv.IsPrint(r) }

// isPlain tells, without allocating, a text that is its own Excerpt; others may be so too.
func isPlain(text string) bool {
	if len(text) > excerptBytes || strings.Contains(text, "  ") || strings.HasPrefix(text, " ") || strings.HasSuffix(text, " ") {
		return false
	}
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// FirstN returns the beginning of a list of nodes or series, of which there may be thousands, as text for a log line or an error.
func FirstN(list []string) string {
	if len(list) > shown {
		return cut(strings.Join(list[:shown], ", "), listBytes-len(", …")) + ", …"
	}
	return cut(strings.Join(list, ", "), listBytes)
}

const ellipsis = "…"

// cut returns the beginning of a text of at most n bytes, which ends in an ellipsis if it was longer.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	end := n - len(ellipsis)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}

// ExcerptError returns an error with the text of err as an Excerpt, which errors.Is and errors.As see through.
func ExcerptError(err error) error { return WithText(err, Excerpt(err.Error())) }

// WithText returns an error with another text than err, which errors.Is and errors.As see through.
func WithText(err error, text string) error { return &textError{error: err, text: text} }

type textError struct {
	error
	text string
}

func (e *textError) Error() string { return e.text }

func (e *textError) Unwrap() error { return e.error }

// Count returns a number and its noun: "1 node", "2 nodes". The plural is the noun with an s.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

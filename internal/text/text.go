// Package text prepares text for logs, errors and tables, and reads and hides names.
package text

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"
)

const (
	excerptBytes = 256
	ellipsis     = "…"
	listBytes    = 512
	// listElements is the number of elements that FirstN shows.
	listElements = 5
)

// The parts of pods' names that controllers make.
const (
	// PodNameLetters are the characters of hashes and of random suffixes: those of k8s.io/apimachinery/pkg/util/rand.
	PodNameLetters = "bcdfghjklmnpqrstvwxz2456789"
	// MinPodNameHash is the shortest length of a Deployment's hash in the names of its ReplicaSets.
	MinPodNameHash = 6
	// MaxPodNameHash is the longest.
	MaxPodNameHash = 10
	// JobTimeDigits is the length of a CronJob's time in the names of its Jobs: minutes since 1970.
	JobTimeDigits = 8
)

// Excerpt returns a server's text for logs, errors and events: on one line, control characters escaped, cut at 256 bytes.
// Apply it to every text of a server once it is read. An Excerpt of an Excerpt is the same text.
func Excerpt(text string) string {
	if isPlain(text) {
		return text
	}
	// Joining white space shortens the text, so cut at eight times the limit first: that bounds the work.
	return cut(Escape(strings.Join(strings.Fields(cut(text, 8*excerptBytes)), " ")), excerptBytes)
}

// Escape escapes unprintable characters as Go source does: \n, \x1b, \u202e. They could control a terminal or forge lines.
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

// isPlain reports, without allocation, whether a text surely equals its Excerpt.
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

// FirstN returns the beginning of a list of nodes or series for a log line or an error. There may be thousands.
func FirstN(list []string) string {
	if len(list) > listElements {
		return cut(strings.Join(list[:listElements], ", "), listBytes-len(", …")) + ", …"
	}
	return cut(strings.Join(list, ", "), listBytes)
}

// Each returns the text of each element of a list.
func Each[T any](list []T, of func(T) string) []string {
	texts := make([]string, len(list))
	for i, element := range list {
		texts[i] = of(element)
	}
	return texts
}

// cut returns at most n bytes of a text. An ellipsis ends a cut text.
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

// ExcerptError returns err with an Excerpt of its text. errors.Is and errors.As still find err.
func ExcerptError(err error) error { return WithText(err, Excerpt(err.Error())) }

// WithText returns err with another text. errors.Is and errors.As still find err.
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

// ShellQuote returns the text as one word of a shell, in quotes if it has special characters.
func ShellQuote(text string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./_-"
	if text != "" && strings.Trim(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// HTTPURL returns an http(s) URL with a host, or nil. An error would repeat the address, which may hold a password.
func HTTPURL(address string) *url.URL {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil
	}
	return u
}

// PortOf returns the port of an http(s) URL, or its scheme's default.
func PortOf(u *url.URL) string {
	if port := u.Port(); port != "" {
		return port
	}
	return map[string]string{"http": "80", "https": "443"}[u.Scheme]
}

// ParseName reads NAMESPACE/NAME. The error names the object.
func ParseName(value, object string) (types.NamespacedName, error) {
	namespace, name, _ := strings.Cut(value, "/")
	if namespace == "" || name == "" || strings.Contains(name, "/") {
		return types.NamespacedName{}, fmt.Errorf("%q; write NAMESPACE/NAME of %s", value, object)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}

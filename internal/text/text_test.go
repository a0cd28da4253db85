package text

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func TestExcerpt(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"plain text stays", `a "quoted" word`, `a "quoted" word`},
		{"lines become one", " one\n\ttwo  three\r\n", "one two three"},
		{"control characters are escaped", "\x1b[2Jred\x00\x7f", `\x1b[2Jred\x00\x7f`},
		{"so are characters that change the direction of text", "a\u202eb\u200b", `a\u202eb\u200b`},
		{"so is what is not UTF-8", "a\xffb", `a\xffb`},
		{"other languages stay", "zu groß, 大きい", "zu groß, 大きい"},
		{"256 bytes stay", strings.Repeat("x", 256), strings.Repeat("x", 256)},
		{"more are cut to 256", strings.Repeat("x", 257), strings.Repeat("x", 253) + "…"},
		{"no character is cut in two", strings.Repeat("ß", 200), strings.Repeat("ß", 126) + "…"},
		{"the escaped text is cut", strings.Repeat("\x00", 257), strings.Repeat(`\x00`, 63) + `\…`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check.Equal(t, "Excerpt", tt.want, Excerpt(tt.text))
		})
	}
}

func FuzzExcerpt(f *testing.F) {
	for _, seed := range []string{"", "plain", "a\nb", "\x1b[0m", "\xff\xfe", "\u202e", strings.Repeat("ß", 300),
		strings.Repeat("\x00 ", 300)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := Excerpt(text)
		if len(got) > 256 || !utf8.ValidString(got) {
			t.Errorf("got %d bytes: %q", len(got), got)
		}
		if strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("got a control character: %q", got)
		}
		if again := Excerpt(got); again != got {
			t.Errorf("an excerpt of %q is %q", got, again)
		}
	})
}

func TestFirstN_LongNames(t *testing.T) {
	long := strings.Repeat("x", 256)
	for _, list := range [][]string{{long, long, long, long, long}, {long, long, long, long, long, long}} {
		if got := FirstN(list); len(got) > 512 || !strings.HasSuffix(got, "…") {
			t.Errorf("%d names give %d bytes", len(list), len(got))
		}
	}
}

// Escape keeps white space, and cuts nothing.
func TestEscape(t *testing.T) {
	long := strings.Repeat("x ", 300)
	check.Equal(t, "Escape", long+`\n\x1b[2J\xff`, Escape(long+"\n\x1b[2J\xff"))
}

func TestExcerptError(t *testing.T) {
	err := ExcerptError(errors.Join(io.ErrUnexpectedEOF, errors.New("\x00")))
	if got := err.Error(); got != `unexpected EOF \x00` || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %q, want the text escaped and the error found", got)
	}
}

func TestEach(t *testing.T) {
	check.Equal(t, "Each", []string{"3", "12"}, Each([]int{3, 12}, strconv.Itoa))
}

func TestPortOf(t *testing.T) {
	for address, want := range map[string]string{
		"http://a": "80", "https://a/b": "443", "http://a:9090": "9090", "https://[::1]": "443",
	} {
		check.Equal(t, fmt.Sprintf("port of %s", address), want, PortOf(HTTPURL(address)))
	}
	for _, address := range []string{"", "a", "a:9090", "ftp://a", "http://", "http://:9090", "http://a:b", "//a"} {
		if u := HTTPURL(address); u != nil {
			t.Errorf("%q is %v, want no URL", address, u)
		}
	}
}

func TestParseName(t *testing.T) {
	want := types.NamespacedName{Namespace: "ns", Name: "n"}
	check.Equal(t, "ParseName", want, check.Value(ParseName("ns/n", "the Service"))(t))
	for _, value := range []string{"", "n", "/n", "ns/", "ns/n/x"} {
		want := `"` + value + `"; write NAMESPACE/NAME of the Service`
		if _, err := ParseName(value, "the Service"); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

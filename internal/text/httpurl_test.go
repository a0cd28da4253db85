package text_test

import (
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

func TestPortOf(t *testing.T) {
	for address, want := range map[string]string{
		"http://a": "80", "https://a/b": "443", "http://a:9090": "9090", "https://[::1]": "443",
	} {
		if got := text.PortOf(text.HTTPURL(address)); got != want {
			t.Errorf("port %q of %s, want %s", got, address, want)
		}
	}
	for _, address := range []string{"", "a", "a:9090", "ftp://a", "http://", "http://:9090", "http://a:b", "//a"} {
		if u := text.HTTPURL(address); u != nil {
			t.Errorf("%q is %v, want no URL", address, u)
		}
	}
}

package text

import (
	"regexp"
	"testing"
)

func TestNameHash(t *testing.T) {
	a, b := NameHash(), NameHash()
	if got := a("node", "worker-1"); got != a("node", "worker-1") || !regexp.MustCompile(`^node-[0-9a-f]{16}$`).MatchString(got) {
		t.Errorf("hash %q, want node- and 16 hexadecimal digits, twice", got)
	}
	if a("node", "x") == a("node", "y") || a("node", "x") == b("node", "x") || a("node", "x")[5:] == a("pool", "x")[5:] {
		t.Error("hashes of other names, keys or kinds are equal")
	}
	if got := a("node", ""); got != "" {
		t.Errorf("hash %q of no name", got)
	}
}

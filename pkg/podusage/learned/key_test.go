package learned

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"testing"
)

func TestKey(t *testing.T) {
	a, b := newKey(), newKey()
	digest := sha256.Sum256([]byte(string(a[:]) + "\x04shop\x03web"))
	if got, want := a.hash("shop", "web"), binary.LittleEndian.Uint64(digest[:]); got != want {
		t.Errorf("hash %x, want %x, of the key and each name behind its length", got, want)
	}
	if a.hash("shop", "web") == b.hash("shop", "web") {
		t.Error("hashes by two keys are equal")
	}
	for _, names := range [][]string{{"shopw", "eb"}, {"shop\x03web"}, {"shop\x03web", ""}, {"web", "shop"}, {"shop", "web", ""}} {
		if a.hash(names...) == a.hash("shop", "web") {
			t.Errorf("%q has the hash of other names", names)
		}
	}
	namespace, name := strings.Repeat("n", 63), strings.Repeat("w", 253) // the longest that Kubernetes allows
	if n := testing.AllocsPerRun(100, func() { a.hash(namespace, name) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

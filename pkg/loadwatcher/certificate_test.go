package loadwatcher

import (
	"os"
	"testing"
	"time"
)

// TestCertificate_Rotation expects the last certificate while the files do not match.
func TestCertificate_Rotation(t *testing.T) {
	certFile, keyFile := writeKeyPair(t)
	c, err := newCertificate(t.Context(), certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	first := c.pair
	nextCert, nextKey := writeKeyPair(t)
	for _, step := range []struct {
		from, to string
		fails    bool
	}{{nextCert, certFile, true}, {nextKey, keyFile, false}} {
		content, err := os.ReadFile(step.from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(step.to, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := c.read(t.Context(), time.Minute); (err != nil) != step.fails || (c.pair == first) != step.fails {
			t.Errorf("after %s: error %v, the first certificate is kept: %v, want %v", step.to, err, c.pair == first, step.fails)
		}
	}
}

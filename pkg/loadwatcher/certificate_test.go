package loadwatcher

import (
	"os"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// TestCertificate_Rotation expects the last certificate while the files do not match.
func TestCertificate_Rotation(t *testing.T) {
	certFile, keyFile := writeKeyPair(t)
	c, err := newCertificate(certFile, keyFile)
	check.OK(t, err)
	first := c.last.Load()
	nextCert, nextKey := writeKeyPair(t)
	for _, step := range []struct {
		from, to string
		fails    bool
	}{{nextCert, certFile, true}, {nextKey, keyFile, false}} {
		content, err := os.ReadFile(step.from)
		check.OK(t, err)
		check.OK(t, os.WriteFile(step.to, content, 0o600))
		if err := c.read(); (err != nil) != step.fails || (c.last.Load() == first) != step.fails {
			t.Errorf("after %s: error %v, the first certificate is kept: %v, want %v", step.to, err, c.last.Load() == first, step.fails)
		}
	}
}

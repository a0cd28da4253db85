package loadwatcher

import (
	"crypto/tls"
	"os"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// TestCertificate_Rotation expects the last certificate while the files do not match.
func TestCertificate_Rotation(t *testing.T) {
	certFile, keyFile := writeKeyPair(t)
	c, err := followCertificate(t.Context(), certFile, keyFile)
	check.OK(t, err)
	latest := func() *tls.Certificate { return check.Value(c.GetCertificate(&tls.ClientHelloInfo{}))(t) }
	first := latest()
	nextCert, nextKey := writeKeyPair(t)
	for _, step := range []struct {
		from, to string
		keeps    bool
	}{{nextCert, certFile, true}, {nextKey, keyFile, false}} {
		content := check.Value(os.ReadFile(step.from))(t)
		check.OK(t, os.WriteFile(step.to, content, 0o600))
		if keeps := latest() == first; keeps != step.keeps {
			t.Errorf("after %s: the first certificate is kept: %v", step.to, keeps)
		}
	}
}

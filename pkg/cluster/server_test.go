package cluster

import (
	"testing"
	"time"
)

func TestSkewOf(t *testing.T) {
	sent := time.Unix(1_700_000_000, 0)
	// The server's clock shows 61 s later than the middle between request and response.
	if got := skewOf(sent.Add(62*time.Second), sent, sent.Add(2*time.Second)); got != 61*time.Second {
		t.Errorf("the skew is %s, want 1m1s", got)
	}
}

package hosted

import (
	"net/http"
	"testing"
	"time"
)

func TestWaitOf_RetryAfterComesFirst(t *testing.T) {
	for retryAfter, want := range map[string]time.Duration{"2": 2 * time.Second, "": 30 * time.Second, "soon": 30 * time.Second} {
		header := http.Header{}
		header.Set("Retry-After", retryAfter)
		header.Set("X-RateLimit-Reset", "30")
		if got := waitOf(header, time.Unix(1e9, 0)); got != want {
			t.Errorf("Retry-After %q: %v, want %v", retryAfter, got, want)
		}
	}
}

package hosted

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
)

const (
	// defaultWait is the wait after a refusal without a reset time: limits are per minute or longer.
	defaultWait = time.Minute
	// longestWait bounds the wait that a service can demand.
	longestWait = time.Hour
	// Numbers of seconds from minUnixSeconds on, which is in 2001, are times. Those from maxUnixSeconds on, in 5138, are invalid.
	minUnixSeconds, maxUnixSeconds = 1e9, 1e11
)

// RateLimit delays queries until a service resets its limit. The zero value delays none. It is not safe for concurrent use.
type RateLimit struct{ reset time.Time }

// LimitedError is a query that was not sent: the service accepts none before Reset.
type LimitedError struct{ Reset time.Time }

// Error names the time.
func (e *LimitedError) Error() string {
	return fmt.Sprintf(
		"the service's rate limit is reached, no query is sent before %s: raise refreshInterval or share a load-watcher service",
		e.Reset.UTC().Format("15:04:05 UTC"),
	)
}

// Check returns a *LimitedError before the limit is reset.
func (l *RateLimit) Check(now time.Time) error {
	if wait := l.reset.Sub(now); wait > 0 && wait <= longestWait { // a longer one means that the clock went back
		return &LimitedError{Reset: l.reset}
	}
	return nil
}

// Observe returns err, with the time of the reset if the rate of queries was refused.
func (l *RateLimit) Observe(now time.Time, err error) error {
	refused, ok := errors.AsType[*httpclient.StatusError](err)
	if !ok || refused.Code != http.StatusTooManyRequests {
		return err
	}
	l.reset = now.Add(waitOf(refused.Header, now))
	return text.WithText(errors.Join(err, &LimitedError{Reset: l.reset}), fmt.Sprintf("%v: %v", err, &LimitedError{Reset: l.reset}))
}

// waitOf returns the wait in the headers of a refusal: Retry-After, or else X-RateLimit-Reset.
func waitOf(header http.Header, now time.Time) time.Duration {
	for _, name := range []string{"Retry-After", "X-RateLimit-Reset"} {
		if wait := waitUntil(header.Get(name), now); wait > 0 {
			return min(wait, longestWait)
		}
	}
	return defaultWait
}

// waitUntil returns the wait in a header; 0 if it has none. The header is a date or a number of seconds from now.
// Gateways write a number of seconds since 1970.
func waitUntil(text string, now time.Time) time.Duration {
	if at, err := http.ParseTime(text); err == nil {
		return at.Sub(now)
	}
	seconds, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	switch {
	case err != nil || !(seconds > 0 && seconds < maxUnixSeconds):
		return 0
	case seconds >= minUnixSeconds:
		return time.Unix(int64(seconds), 0).Sub(now)
	}
	return time.Duration(seconds * float64(time.Second))
}

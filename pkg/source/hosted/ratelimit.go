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
	// unstatedWait is the wait after a refusal that does not say when the limit is reset: limits are per minute or longer.
	unstatedWait = time.Minute
	// longestWait is the longest wait that a service can demand.
	longestWait = time.Hour
	// Numbers of seconds from minUnixSeconds on, which is in 2001, are moments. Those from maxUnixSeconds on, in 5138, are none.
	minUnixSeconds, maxUnixSeconds = 1e9, 1e11
)

// RateLimit keeps queries back until the time at which a service resets its limit. The zero value lets all pass. It is not safe for
// concurrent use.
type RateLimit struct{ reset time.Time }

// LimitedError is a query that was not sent, because the service accepts none before Reset.
type LimitedError struct{ Reset time.Time }

// Error names the time.
func (e *LimitedError) Error() string {
	return fmt.Sprintf("the service's rate limit is reached: no query is sent before %s; if that lasts, read less often (refreshInterval), or let several schedulers share one load-watcher service",
		e.Reset.UTC().Format("15:04:05 UTC"))
}

// Check returns a *LimitedError before the limit is reset.
func (l *RateLimit) Check(now time.Time) error {
	if wait := l.reset.Sub(now); wait > 0 && wait <= longestWait { // a longer one means that the clock went back
		return &LimitedError{Reset: l.reset}
	}
	return nil
}

// Observe returns err, with the time of the reset if it is a refusal for the rate of queries.
func (l *RateLimit) Observe(now time.Time, err error) error {
	refused, ok := errors.AsType[*httpclient.StatusError](err)
	if !ok || refused.Code != http.StatusTooManyRequests {
		return err
	}
	l.reset = now.Add(waitOf(refused.Header, now))
	return text.WithText(errors.Join(err, &LimitedError{Reset: l.reset}), fmt.Sprintf("%v: %v", err, &LimitedError{Reset: l.reset}))
}

// waitOf returns how long the headers of a refusal demand to wait: Retry-After, or else X-RateLimit-Reset.
func waitOf(header http.Header, now time.Time) time.Duration {
	for _, name := range []string{"Retry-After", "X-RateLimit-Reset"} {
		if wait := waitUntil(header.Get(name), now); wait > 0 {
			return min(wait, longestWait)
		}
	}
	return unstatedWait
}

// waitUntil returns how long it is until the time of a header, which is a date, a number of seconds from now on or, as gateways write
// it, a number of seconds since 1970; 0 if it is none of them.
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

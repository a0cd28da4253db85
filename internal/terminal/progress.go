package terminal

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Progress shows the completed share and the remaining time. It is safe for concurrent use. A nil Progress shows nothing.
type Progress struct {
	out   io.Writer
	start time.Time

	mu   sync.Mutex
	last time.Time
}

// NewProgress returns a progress bar on out, or nil if out is not a terminal.
func NewProgress(out io.Writer) *Progress {
	if StyleOf(out).Width == 0 {
		return nil
	}
	return &Progress{out: out, start: time.Now()}
}

// Set shows the completed share, in [0, 1].
func (b *Progress) Set(done float64) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	const interval, width = 200 * time.Millisecond, 30
	now := time.Now()
	if now.Sub(b.last) < interval || done <= 0 {
		return
	}
	b.last = now
	remaining := time.Duration(float64(now.Sub(b.start)) * (1 - done) / done).Round(time.Second)
	bar := strings.Repeat("=", int(done*width))
	_, _ = fmt.Fprintf(b.out, "\r[%-*s] %3.0f %%, %s left   ", width, bar, 100*done, remaining)
}

// Clear removes the bar.
func (b *Progress) Clear() {
	if b != nil {
		_, _ = fmt.Fprint(b.out, "\r\x1b[K")
	}
}

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// progressBar shows on a terminal how much is done, and how long the rest will take. It is safe for concurrent use.
type progressBar struct {
	out   io.Writer
	began time.Time

	mu    sync.Mutex
	shown time.Time
}

// newProgressBar returns a bar on out, or nil if out is no terminal.
func newProgressBar(out io.Writer) *progressBar {
	if f, ok := out.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return &progressBar{out: out, began: time.Now()}
}

// set shows the share that is done, in [0, 1].
func (b *progressBar) set(done float64) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	const often, width = 200 * time.Millisecond, 30
	now := time.Now()
	if now.Sub(b.shown) < often || done <= 0 {
		return
	}
	b.shown = now
	left := time.Duration(float64(now.Sub(b.began)) * (1 - done) / done).Round(time.Second)
	full := int(done * width)
	fmt.Fprintf(b.out, "\r[%s%s] %3.0f %%, %s left   ", strings.Repeat("=", full), strings.Repeat(" ", width-full), 100*done, left)
}

// clear removes the bar.
func (b *progressBar) clear() {
	if b != nil {
		fmt.Fprint(b.out, "\r\x1b[K")
	}
}

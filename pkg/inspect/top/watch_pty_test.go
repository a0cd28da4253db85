//go:build unix

package top

import (
	"bytes"
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
)

// pseudoterminal is a pseudoterminal that keeps what is written to it.
type pseudoterminal struct {
	// user is the side of whoever looks and types, program the other.
	user, program *os.File

	mu      sync.Mutex
	written bytes.Buffer
}

func newTerminal(t *testing.T, columns, rows uint16) *pseudoterminal {
	t.Helper()
	user, program, err := pty.Open()
	must(t, err)
	must(t, pty.Setsize(program, &pty.Winsize{Cols: columns, Rows: rows}))
	term := &pseudoterminal{user: user, program: program}
	var reading sync.WaitGroup
	reading.Go(func() {
		buffer := make([]byte, 1<<16)
		for {
			n, err := user.Read(buffer)
			term.mu.Lock()
			term.written.Write(buffer[:n])
			term.mu.Unlock()
			if err != nil {
				return // the program's side is closed
			}
		}
	})
	t.Cleanup(func() {
		_ = program.Close() // so that reading ends
		reading.Wait()
		_ = user.Close() // nothing is left to read
	})
	return term
}

func (t *pseudoterminal) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.written.String()
}

// A view of 5,000 nodes on a terminal writes the changes of the visible rows. It never clears the screen.
func TestWatch_OnATerminal(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	for _, size := range []struct{ columns, rows uint16 }{{80, 24}, {200, 60}} {
		term := newTerminal(t, size.columns, size.rows)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		const redraws = 20
		read := make(chan struct{}, redraws+1)
		model := newNodeWatch(nil, Selection{Order: ByLine}, terminal.Style{Color: true})
		reads, shown, began := 0, 0, time.Now()
		var first int
		drawn := func() bool {
			text := term.text()
			return strings.Count(text, "ip-10-0-") >= int(size.rows)-otherLines && strings.Contains(text, "q quit")
		}
		model.read = func(bool) watchedNodes {
			if reads++; reads == 2 {
				for !drawn() && ctx.Err() == nil {
					time.Sleep(time.Millisecond)
				}
				first, began = len(term.text()), time.Now()
			}
			nodes := manyNodes(5000)        // what was read before is being drawn
			for _, n := range nodes.Nodes { // all load moves
				*n.CPU.MeasuredPercent += 0.1 * float64(reads)
				n.CPU.UtilizationPercent += 0.1 * float64(reads)
			}
			if reads > redraws+1 {
				if shown++; shown == 1 {
					close(read)
				}
			}
			return watchedNodes{nodes: nodes, refreshed: lookedAt}
		}
		model.interval = 100 * time.Millisecond // a frame takes up to 17 ms
		ended := make(chan error, 1)
		go func() { ended <- model.run(ctx, term.program, term.program) }()
		select {
		case <-read:
		case <-ctx.Done():
			t.Fatalf("fewer than %d redraws in ten minutes", redraws)
		}
		took, text := time.Since(began), term.text()
		// Keys that are read at once are single keys.
		if _, err := term.user.WriteString("/n-4\rq"); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil || ctx.Err() != nil {
			t.Fatalf("the view ended with %v, %v", err, ctx.Err())
		}
		if model.filter != "n-4" || model.typing {
			t.Errorf("after keys that were read at once the filter is %q, typing %v", model.filter, model.typing)
		}
		perRedraw := (len(text) - first) / redraws
		t.Logf("%d×%d: %d bytes at first, %d bytes a redraw, %v a redraw with the %v between", size.columns, size.rows, first, perRedraw,
			took/redraws, model.interval)
		// Every row changes. Beside its text it has the colors of up to five cells.
		const colors = 5 * len("\x1b[31m\x1b[m")
		if most := int(size.rows) * (2*int(size.columns) + colors + 10); perRedraw > most || perRedraw < int(size.rows) {
			t.Errorf("%d bytes are written a redraw, want some, and at most %d", perRedraw, most)
		}
		if n := strings.Count(text[first:], "\x1b[2J"); n > 0 {
			t.Errorf("the screen is cleared %d times while nodes are watched", n)
		}
		if model.style.Width != int(size.columns) || model.height != int(size.rows) {
			t.Errorf("the view is %d×%d, want the size of the terminal", model.style.Width, model.height)
		}
		deadline := time.Now().Add(time.Minute)
		const leave = "\x1b[?1049l"
		for !strings.Contains(term.text(), leave) {
			if time.Now().After(deadline) {
				t.Fatal("the screen is not given back")
			}
			time.Sleep(time.Millisecond)
		}
	}
}

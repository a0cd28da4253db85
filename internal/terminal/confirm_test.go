package terminal_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
)

func TestConfirm(t *testing.T) {
	for answer, want := range map[string]bool{"y\nn\n": true, " YES \n": true, "n\n": false, "\n": false, "yesterday\n": false} {
		var out strings.Builder
		if yes, err := terminal.Confirm(t.Context(), strings.NewReader(answer), &out, "Evict?"); yes != want || err != nil {
			t.Errorf("%q: %v with error %v, want %v", answer, yes, err, want)
		}
		if out.String() != "\nEvict? [y/N] " {
			t.Errorf("it asks %q", out.String())
		}
	}
}

// An answer without its line end is none. Ctrl-C ends the wait.
func TestConfirm_NoAnswer(t *testing.T) {
	if yes, err := terminal.Confirm(t.Context(), strings.NewReader("y"), io.Discard, "Evict?"); yes || !errors.Is(err, io.EOF) {
		t.Errorf("%v with error %v, want %v", yes, err, io.EOF)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	in, out := io.Pipe()
	if yes, err := terminal.Confirm(ctx, in, io.Discard, "Evict?"); yes || !errors.Is(err, context.Canceled) {
		t.Errorf("%v with error %v, want %v", yes, err, context.Canceled)
	}
	if err := out.Close(); err != nil { // the read ends
		t.Error(err)
	}
}

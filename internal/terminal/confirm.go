package terminal

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
)

// Confirm asks a question, and reports whether the answer is yes.
func Confirm(ctx context.Context, in io.Reader, out io.Writer, question string) (bool, error) {
	if _, err := fmt.Fprintf(out, "\n%s [y/N] ", question); err != nil {
		return false, err
	}
	answer, err := readLine(ctx, in)
	answer = strings.ToLower(strings.TrimSpace(answer))
	return err == nil && (answer == "y" || answer == "yes"), err
}

// readLine reads a line. It does not wait for one after ctx is done: the program ends then.
func readLine(ctx context.Context, in io.Reader) (string, error) {
	type line struct {
		text string
		err  error
	}
	read := make(chan line, 1)
	go func() {
		text, err := bufio.NewReader(in).ReadString('\n')
		read <- line{text, err}
	}()
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case l := <-read:
		return l.text, l.err
	}
}

//go:build unix

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/creack/pty"
)

// No package asks the terminal when the program starts: it would wait for an answer that some terminals do not give.
// This binary has the packages of the program.
func TestStart_AsksTheTerminalNothing(t *testing.T) {
	user, program, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = user.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, os.Args[0], "-test.run=^$")
	command.Env = append(os.Environ(), "TERM=xterm-256color")
	command.Stdin, command.Stdout, command.Stderr = program, program, program
	if err := command.Run(); err != nil {
		t.Fatal(err)
	}
	_ = program.Close() // so that reading ends
	var written bytes.Buffer
	_, _ = written.ReadFrom(user) // fails at the end
	if text := written.Bytes(); bytes.Contains(text, []byte("\x1b")) || !bytes.Contains(text, []byte("PASS")) {
		t.Errorf("the program begins with %q", text)
	}
}

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

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// No package asks the terminal when the program starts. Some terminals do not answer, and the program would wait. This binary has
// the packages of the program.
func TestStart_AsksTheTerminalNothing(t *testing.T) {
	user, program, err := pty.Open()
	check.OK(t, err)
	defer func() { _ = user.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, os.Args[0], "-test.run=^$")
	command.Env = append(os.Environ(), "TERM=xterm-256color")
	command.Stdin, command.Stdout, command.Stderr = program, program, program
	check.OK(t, command.Run())
	_ = program.Close() // so that reading ends
	var written bytes.Buffer
	_, _ = written.ReadFrom(user) // fails at the end
	if text := written.Bytes(); bytes.Contains(text, []byte("\x1b")) || !bytes.Contains(text, []byte("PASS")) {
		t.Errorf("the program begins with %q", text)
	}
}

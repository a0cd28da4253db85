package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An address that others reach needs a token that nobody guesses.
func TestUI_Token(t *testing.T) {
	good, short := filepath.Join(t.TempDir(), "good"), filepath.Join(t.TempDir(), "short")
	const token = "0123456789abcdef0123456789abcdef"
	must(t, os.WriteFile(good, []byte(token+"\n"), 0o600))
	must(t, os.WriteFile(short, []byte("secret\n"), 0o600))
	for _, tt := range []struct {
		address, file, token, err string
	}{
		{address: "127.0.0.1"},
		{address: "::1"},
		{address: "127.0.0.1", file: good, token: token},
		{address: "10.0.0.1", file: good, token: token},
		{address: "10.0.0.1", err: "10.0.0.1 is no loopback address; write --token-file too"},
		{address: "0.0.0.0", file: good, err: `--address: "0.0.0.0"; write the IP address at which browsers reach this machine`},
		{address: "localhost", err: `--address: "localhost"; write the IP address`},
		{address: "10.0.0.1", file: short, err: "has 6 characters; write at least 32"},
		{address: "10.0.0.1", file: good + "-not", err: "--token-file: "},
	} {
		got, err := (&uiOptions{address: tt.address, tokenFile: tt.file}).token()
		_, usage := errors.AsType[usageError](err)
		if got != tt.token || (tt.err != "") != usage || usage && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%+v: token %q, error %v", tt, got, err)
		}
	}
}

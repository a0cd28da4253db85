package ui

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An address that others reach needs a token that nobody guesses.
func TestReadToken(t *testing.T) {
	dir := t.TempDir()
	good, short := filepath.Join(dir, "good"), filepath.Join(dir, "short")
	open, link := filepath.Join(dir, "open"), filepath.Join(dir, "link")
	const token = "0123456789abcdef0123456789abcdef"
	must(t, os.WriteFile(good, []byte(token+"\n"), 0o600))
	must(t, os.WriteFile(short, []byte("secret\n"), 0o600))
	must(t, os.WriteFile(open, []byte(token+"\n"), 0o600))
	must(t, os.Chmod(open, 0o604)) //nolint:gosec // others read it, whatever the umask is
	must(t, os.Symlink(open, link))
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
		{address: "10.0.0.1", file: open, err: "all users of this machine can read or write " + open + "; run: chmod o= " + open},
		{address: "127.0.0.1", file: link, err: "all users of this machine can read or write " + link},
		{address: "10.0.0.1", file: dir, err: "is not a regular file"},
		{address: "10.0.0.1", file: good + "-not", err: "--token-file: "},
	} {
		got, err := "", CheckAddress(tt.address, tt.file)
		if err == nil {
			got, err = ReadToken(tt.file)
		}
		if got != tt.token || (tt.err != "") != (err != nil) || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%+v: token %q, error %v", tt, got, err)
		}
	}
}

package main

import (
	"strings"
	"testing"
)

// ok ends the test if err is not nil.
func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// value returns the result of a call, or ends the test with its error: value(os.ReadFile(name))(t).
func value[T any](result T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		ok(t, err)
		return result
	}
}

// wantError fails the test unless err has the part.
func wantError(t *testing.T, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("the error is %v, want %q in it", err, part)
	}
}

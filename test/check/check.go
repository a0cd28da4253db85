// Package check ends a test at the first error, and reports differences.
package check

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// OK ends the test if err is not nil.
func OK(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Value returns the result of a call, or ends the test with its error: check.Value(os.ReadFile(name))(t).
func Value[T any](value T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		OK(tb, err)
		return value
	}
}

// Equal fails the test, and shows the difference, unless got is as wanted.
func Equal[T any](tb testing.TB, what string, want, got T, options ...cmp.Option) {
	tb.Helper()
	if diff := cmp.Diff(want, got, options...); diff != "" {
		tb.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Require ends the test, and shows the difference, unless got is as wanted.
func Require[T any](tb testing.TB, what string, want, got T) {
	tb.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		tb.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// Error ends the test without an error, and fails it unless err has all parts.
func Error(tb testing.TB, err error, parts ...string) {
	tb.Helper()
	if err == nil {
		tb.Fatalf("no error, want one with %q", parts)
	}
	Contains(tb, err.Error(), parts...)
}

// Contains fails the test unless the text has all parts.
func Contains(tb testing.TB, text string, parts ...string) {
	tb.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			tb.Errorf("no %q in\n%s", part, text)
		}
	}
}

// Lacks fails the test if the text has one of the parts.
func Lacks(tb testing.TB, text string, parts ...string) {
	tb.Helper()
	for _, part := range parts {
		if strings.Contains(text, part) {
			tb.Errorf("%q in\n%s", part, text)
		}
	}
}

// Receive returns the next value of a channel. It ends the test if none comes within five minutes.
func Receive[T any](tb testing.TB, what string, from <-chan T) T {
	tb.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(5 * time.Minute): // the machine may be busy
		tb.Fatalf("%s: nothing within five minutes", what)
		panic("unreachable")
	}
}

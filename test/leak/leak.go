// Package leak finds goroutines that tests leave behind.
package leak

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Main runs the tests of a package, and exits. It fails if a goroutine has not ended a minute later. Some take a second to end, and
// more on a busy machine.
func Main(m *testing.M, options ...goleak.Option) { os.Exit(Run(m, options...)) }

// Run is Main without the exit. It returns the exit code.
func Run(m *testing.M, options ...goleak.Option) int {
	code := m.Run()
	if err := Find(options...); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

// Find returns an error with the goroutines that have not ended after a minute.
func Find(options ...goleak.Option) error {
	var leaked error
	ended := func(context.Context) (bool, error) {
		leaked = goleak.Find(options...)
		return leaked == nil, nil
	}
	if err := wait.PollUntilContextTimeout(context.Background(), 20*time.Millisecond, time.Minute, true, ended); err != nil {
		return leaked
	}
	return nil
}

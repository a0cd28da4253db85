package rebalance

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/util/wait"
)

// TestMain checks that all goroutines end with the contexts of their tests. The scheduler's recorders of metrics take up to a
// second to do so.
func TestMain(m *testing.M) {
	code := m.Run()
	var leak error
	ended := func(context.Context) (bool, error) {
		leak = goleak.Find()
		return leak == nil, nil
	}
	if err := wait.PollUntilContextTimeout(context.Background(), 100*time.Millisecond, time.Minute, true, ended); err != nil &&
		code == 0 {
		fmt.Fprintln(os.Stderr, leak)
		code = 1
	}
	os.Exit(code)
}

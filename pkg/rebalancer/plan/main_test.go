package plan

import (
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/test/leak"
)

// TestMain checks that all goroutines end with the contexts of their tests.
func TestMain(m *testing.M) { leak.Main(m) }

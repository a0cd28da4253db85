package shadow

import (
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/test/leak"
)

func TestMain(m *testing.M) {
	leak.Main(m)
}

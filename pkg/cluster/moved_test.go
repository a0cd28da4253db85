package cluster

import (
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func TestOrigin_String(t *testing.T) {
	o := &Origin{Pod: "web-1", From: "n-1", At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Why: "why"}
	check.Equal(t, "text", "web-1, moved from n-1 at 2026-01-02T03:04:05Z: why", o.String())
}

package plan

import (
	"testing"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// A pod of 20 % leaves a node at 83 %.
func TestMove_Why(t *testing.T) {
	m := Move{Pod: "web-1", From: "n-1", Resource: load.CPU, Line: .8, FromBefore: .83, FromAfter: .63}
	check.Equal(t, "reason", "cpu of n-1 goes from 83 % to 63 %, and its line is 80 %", m.Why())
}

package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// TestState_Origins has a pod of 20 % that left a node at 83 %. A move without a replacement has no origin.
func TestState_Origins(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	moving := Moving{Began: at, Move: Move{
		Pod: "web-1", From: "n-1", Resource: load.CPU, Line: .8, FromBefore: .83, FromAfter: .63,
	}}
	s := &State{Records: []Record{
		{Moving: moving, Outcome: Landed, Replacement: "web-2", ReplacementUID: "u-2", Node: "n-2"},
		{Moving: moving, Outcome: NotReady},
	}}
	const why = "cpu of n-1 goes from 83 % to 63 %, and its line is 80 %"
	want := map[types.UID]*cluster.Origin{"u-2": {Pod: "web-1", From: "n-1", At: at, Why: why}}
	got := s.Origins()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got, want := got["u-2"].String(), "web-1, moved from n-1 at 2026-01-02T03:04:05Z: "+why; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

package command

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/plan"
)

// scripted is an executor whose calls have these results, one after the other. The last result repeats.
type scripted struct {
	results []result
	calls   []string
	// interrupt is called at each call, if it is set.
	interrupt func(call int)
}

// result is a move under way, and whether the step began it.
type result struct {
	underWay types.UID
	began    bool
	err      error
	// refused says that the step has no plan: it ends after some refusals.
	refused bool
}

func (s *scripted) next(call string) result {
	s.calls = append(s.calls, call)
	if s.interrupt != nil {
		s.interrupt(len(s.calls))
	}
	return s.results[min(len(s.calls), len(s.results))-1]
}

func (r *result) moving() []*plan.Moving {
	if r.underWay == "" {
		return nil
	}
	return []*plan.Moving{{Move: plan.Move{UID: r.underWay}}}
}

func (s *scripted) Step(context.Context, bool) (*plan.Status, error) {
	r := s.next("step")
	if r.err != nil {
		return nil, r.err
	}
	status := &plan.Status{Plan: &plan.Plan{Moves: make([]plan.Move, 1)}, UnderWay: r.moving()}
	if r.refused {
		status.Plan = nil
	}
	if r.began {
		status.Began = status.UnderWay[0]
	}
	return status, nil
}

func (s *scripted) Settle(context.Context) ([]*plan.Moving, error) {
	r := s.next("settle")
	return r.moving(), r.err
}

// TestRun makes two moves at most, with a look every 2 s.
func TestRun(t *testing.T) {
	down := errors.New("connection refused")
	for _, tc := range []struct {
		name    string
		results []result
		calls   []string
		shown   []string
		took    time.Duration
		err     error
	}{
		{
			"all is well", []result{{underWay: "a", began: true}, {underWay: "b", began: true}, {}},
			[]string{"step", "step", "settle"}, nil, 4 * time.Second, nil,
		},
		{
			"five pods are refused first", []result{{refused: true}, {underWay: "a", began: true}, {underWay: "b", began: true}, {}},
			[]string{"step", "step", "step", "settle"}, nil, 6 * time.Second, nil,
		},
		{
			"the API server is down for a while", []result{{underWay: "a", began: true}, {err: down}, {err: down}, {}, {underWay: "b", began: true}, {}},
			[]string{"step", "step", "settle", "settle", "step", "settle"},
			[]string{"Trying again: connection refused", "Trying again: connection refused"}, 10 * time.Second, nil,
		},
		{
			"an eviction without an answer is one of the two", []result{{underWay: "a", began: true}, {err: down}, {underWay: "b", began: false}, {}},
			[]string{"step", "step", "settle", "settle"}, []string{"Trying again: connection refused"}, 6 * time.Second, nil,
		},
		{
			"the API server stays down", []result{{err: down}},
			append([]string{"step"}, slices.Repeat([]string{"settle"}, 29)...),
			slices.Repeat([]string{"Trying again: connection refused"}, 29), 58 * time.Second, down,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, began := &scripted{results: tc.results}, time.Now()
				var shown []string
				err := run(t.Context(), s, 2, func(line string) { shown = append(shown, line) })
				if !errors.Is(err, tc.err) || !slices.Equal(s.calls, tc.calls) || !slices.Equal(shown, tc.shown) {
					t.Errorf("error %v after %q, shown %q; want %v after %q, shown %q", err, s.calls, shown, tc.err, tc.calls, tc.shown)
				}
				if took := time.Since(began); took != tc.took {
					t.Errorf("it took %v, want %v", took, tc.took)
				}
			})
		})
	}
}

// TestRun_Stopped has Ctrl-C before the first step, and during it. The ticker fires at the same time.
func TestRun_Stopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct {
			at   int
			want string
		}{
			{0, "stopped between moves; 0 pods without a ready replacement yet"},
			{1, "stopped between moves; 1 pod without a ready replacement yet"},
		} {
			for range 20 { // a select chooses at random
				ctx, cancel := context.WithCancel(t.Context())
				s := &scripted{results: []result{{underWay: "a", began: true}}, interrupt: func(call int) {
					if call == tc.at {
						time.Sleep(evictInterval)
						cancel()
					}
				}}
				s.interrupt(0)
				if err := run(ctx, s, 2, nil); err == nil || err.Error() != tc.want || len(s.calls) != tc.at {
					t.Fatalf("error %v after %q, want %s", err, s.calls, tc.want)
				}
				cancel()
			}
		}
	})
}

// TestEviction_Confirm is interrupted at the question, and then confirmed.
func TestEviction_Confirm(t *testing.T) {
	e := Eviction{Confirm: func(*Report) (bool, error) { return true, nil }}
	r := &Report{Moves: make([]Move, 1)}
	if confirmed, err := e.confirm(t.Context(), r); err != nil || !confirmed {
		t.Errorf("it is confirmed: %t, with error %v", confirmed, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if confirmed, err := e.confirm(ctx, r); confirmed || err == nil || err.Error() != "stopped; no pod was moved" {
		t.Errorf("after Ctrl-C it is confirmed: %t, with error %v", confirmed, err)
	}
	if confirmed, err := e.confirm(t.Context(), &Report{}); err != nil || confirmed {
		t.Errorf("without a move it is confirmed: %t, with error %v", confirmed, err)
	}
}

// TestConfirm lets the executor make the moves of the plan. Without any, no pod may move: nil would mean all.
func TestConfirm(t *testing.T) {
	for _, tc := range []struct {
		moves []plan.Move
		only  map[types.UID]bool
	}{
		{nil, map[types.UID]bool{}},
		{[]plan.Move{{UID: "1"}, {UID: "2"}}, map[types.UID]bool{"1": true, "2": true}},
	} {
		e := &plan.Executor{Config: &api.Configuration{Mode: api.Plan}}
		confirm(e, &plan.Plan{Moves: tc.moves})
		if e.Only == nil || !maps.Equal(e.Only, tc.only) || e.Config.Mode != api.Evict {
			t.Errorf("only %v in mode %s, want %v in mode Evict", e.Only, e.Config.Mode, tc.only)
		}
	}
}

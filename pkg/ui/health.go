package ui

import (
	"context"
	"time"

	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
)

// The checks list all pods and ask the source of load. So they rest for at least checkInterval, and for restFactor times as long
// as they took.
const (
	checkInterval = time.Minute
	checkTimeout  = time.Minute
	restFactor    = 9
)

// checkHealth runs the checks now and then, until ctx is done.
func (s *Server) checkHealth(ctx context.Context) {
	for {
		began := s.options.Clock.Now()
		health := check(ctx, s.options.Check, s.lend, s.options.Clock)
		s.mu.Lock()
		s.health = health
		s.mu.Unlock()
		rest := s.options.Clock.NewTimer(max(checkInterval, restFactor*s.options.Clock.Since(began)))
		select {
		case <-ctx.Done():
			rest.Stop()
			return
		case <-rest.C():
		}
	}
}

// check runs the checks once.
func check(
	ctx context.Context, run func(context.Context, cluster.Lender) (*doctor.Report, error), lend cluster.Lender, c clock.PassiveClock,
) *Health {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	report, err := run(ctx, lend)
	if err != nil {
		return &Health{Time: c.Now().UTC(), Problem: text.Excerpt(err.Error())}
	}
	return &Health{Time: c.Now().UTC(), Report: report}
}

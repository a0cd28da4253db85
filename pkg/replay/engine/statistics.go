package engine

import (
	"time"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
	"github.com/plimsoll-scheduler/plimsoll/pkg/refresh"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
)

const ticksPerStatistics = int(refresh.WorkloadInterval / input.Tick)

// statistics are of the workloads' usage, learned as a scheduler does: from each pod's mean over each refresh.WorkloadInterval.
type statistics struct {
	spec      config.StatisticsSpec
	publisher *learned.Publisher
	tally     *learned.Tally
	// capacity is that of all nodes.
	capacity podusage.Amounts
}

func newStatistics(spec config.StatisticsSpec, capacity podusage.Amounts) *statistics {
	return &statistics{spec, learned.NewPublisher(), learned.NewTally(spec.WorkloadLabel, capacity), capacity}
}

// publish publishes the statistics with the interval that ends now.
func (s *statistics) publish(now time.Time) {
	bounds := learned.Config{History: s.spec.History.Duration, MaxWorkloads: refresh.MaxWorkloads}
	s.publisher.Publish(s.publisher.Latest().WithTally(s.tally, now, refresh.WorkloadInterval, bounds))
	s.tally = learned.NewTally(s.spec.WorkloadLabel, s.capacity)
}

// flush adds the pod's usage since the last observation to all statistics.
func (e *engine) flush(i int) {
	p, in := &e.pods[i], &e.Pods[i]
	if p.ticks == 0 {
		return
	}
	usage := podusage.Amounts{load.CPU: p.sum / float64(p.ticks), load.Memory: in.MemoryBytes}
	of := e.Workloads[in.Workload].Requests
	requests := podusage.Amounts{load.CPU: of.CPUMillis, load.Memory: of.MemoryBytes}
	share := float64(p.ticks) / float64(ticksPerStatistics)
	for _, s := range e.provider.statistics {
		for r, u := range usage {
			s.tally.Add(p.object, load.Resource(r), u, requests[r], share)
		}
	}
	p.sum, p.ticks = 0, 0
}

func (e *engine) observe() {
	for i := range e.nodes {
		for _, j := range e.nodes[i].running {
			e.flush(j)
		}
	}
	for _, s := range e.provider.statistics {
		s.publish(e.clock.Now())
	}
}

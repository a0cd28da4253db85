package replay

import (
	"time"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
)

const (
	// statisticsInterval is the time between two observations of what pods use.
	statisticsInterval = 5 * time.Minute
	ticksPerStatistics = int(statisticsInterval / Tick)
	// maxWorkloads bounds the workloads that statistics are kept of.
	maxWorkloads = 20000
)

// statistics are the statistics of what the pods of each workload use, as a scheduler learns them: of the mean of each pod over
// each statisticsInterval.
type statistics struct {
	spec      config.StatisticsSpec
	publisher *learned.Publisher
	// names are those of the workloads, by index; nil before the first observation.
	names []workloadName
}

// workloadName is the name under which statistics of a workload are kept, if there is one.
type workloadName struct {
	learned.Workload
	ok bool
}

// name returns the name of the workload with the given index.
func (s *statistics) name(templates []podTemplate, workload int) workloadName {
	if s.names == nil {
		s.names = make([]workloadName, len(templates))
		for i := range templates {
			s.names[i].Workload, s.names[i].ok = templates[i].workload(s.spec.WorkloadLabel)
		}
	}
	return s.names[workload]
}

// observations add up what the pods of each workload have used since the last observation.
type observations struct {
	byWorkload []observation
	requesting learned.Requesting
}

// observation is what the pods of one workload have used. A pod that ran for half of the interval counts as half a pod.
type observation struct {
	pods         float64
	sum, squares podusage.Amounts
}

// add adds what a pod of the workload used on average, over the given number of ticks.
func (o *observations) add(workload int, usage, requests podusage.Amounts, ticks int) {
	into, share := &o.byWorkload[workload], float64(ticks)/float64(ticksPerStatistics)
	into.pods += share
	for r, u := range usage {
		into.sum[r] += share * u
		into.squares[r] += share * u * u
		o.requesting.Add(load.Resource(r), u, requests[r], share)
	}
}

// flush adds what the pod has used since the last observation.
func (e *engine) flush(i int) {
	p, in := &e.pods[i], &e.Pods[i]
	if p.ticks == 0 {
		return
	}
	usage := podusage.Amounts{load.CPU: p.sum / float64(p.ticks), load.Memory: in.MemoryBytes}
	e.observations.add(in.Workload, usage, e.Workloads[in.Workload].Requests, p.ticks)
	p.sum, p.ticks = 0, 0
}

// observe publishes statistics with what the pods have used since the last observation.
func (e *engine) observe() {
	for i := range e.nodes {
		for _, j := range e.nodes[i].running {
			e.flush(j)
		}
	}
	o := &e.observations
	for _, s := range e.provider.statistics {
		var all []learned.Observation
		for w := range o.byWorkload {
			if of := &o.byWorkload[w]; of.pods > 0 {
				name := s.name(e.templates, w)
				if !name.ok {
					continue
				}
				for r := range load.ResourceCount {
					all = append(all, learned.Observation{
						Workload: name.Workload, Resource: r, At: e.clock.Now(), Span: statisticsInterval,
						Pods: of.pods, Sum: of.sum[r], SumSquares: of.squares[r],
					})
				}
			}
		}
		cluster := s.publisher.Latest().Cluster()
		for r := range load.ResourceCount {
			cluster = cluster.With(&o.requesting, r, statisticsInterval, s.spec.History.Duration)
		}
		bounds := learned.Config{History: s.spec.History.Duration, MaxWorkloads: maxWorkloads}
		s.publisher.Publish(s.publisher.Latest().With(all, cluster, bounds))
	}
	for w := range o.byWorkload {
		if o.byWorkload[w].pods > 0 {
			e.observed[w] = true
			o.byWorkload[w] = observation{}
		}
	}
	o.requesting = learned.Requesting{}
}

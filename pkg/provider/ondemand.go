package provider

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage/learned"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider/sources"
	"github.com/plimsoll-scheduler/plimsoll/pkg/refresh"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

// maxSkew is how far the clocks of the scheduler and of a command may differ, with the time to send the load. Beyond it, the age of
// the load would be wrong.
const maxSkew = 10 * time.Second

// NewOnDemand returns a provider that reads its sources only when Refresh is called. A source that cannot be opened fails at each
// Refresh. If read is not nil, it asks a scheduler for what the scheduler read of them. Then the provider reads only what read
// lacks.
func NewOnDemand(
	c clock.Clock, registry refresh.Registry, access sources.Access,
	read func(ctx context.Context, withStatistics bool) (*Served, error),
) *Provider {
	p := New(c, registry, access)
	p.onDemand, p.read = true, read
	return p
}

// ServedErr says why the last Refresh did not use what a scheduler had read; nil if it did, or could ask none.
func (p *Provider) ServedErr() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.servedErr
}

// SourceStatus is a source of load, and the result of its last refresh.
type SourceStatus struct {
	// Label is the name of the source in logs and telemetry.
	Label string
	// Spec is that of the first reader of the source.
	Spec config.LoadSpec
	// Source must not be read while Refresh runs.
	Source source.Source
	// Readers are those of the source, in the order in which they were opened.
	Readers []*reading.Reader
	// Outcome is that of the last refresh. Adopted reports whether that was a scheduler's.
	refresh.Outcome
	Adopted bool
}

// StatisticsStatus is a source of workload statistics, and the result of its last refresh.
type StatisticsStatus struct {
	// Label is the name of the source in logs and telemetry.
	Label string
	// Spec and Statistics are those of the first reader.
	Spec       config.LoadSpec
	Statistics config.StatisticsSpec
	// Publisher has the statistics.
	Publisher *learned.Publisher
	// WorkloadOutcome is that of the last refresh. Adopted reports whether that was a scheduler's.
	refresh.WorkloadOutcome
	Adopted bool
}

// FromPrometheus reports whether Prometheus has the usage. Otherwise metrics-server has it.
func (s *StatisticsStatus) FromPrometheus() bool { return s.Spec.ReadsPodsFromPrometheus() }

// Refresh reads all sources of load, and all usage of pods with its missing history. It reads them once, in parallel. It returns
// when all have been read or have failed. It must only be called for a provider of NewOnDemand.
func (p *Provider) Refresh(ctx context.Context) {
	p.refresh(ctx, true)
}

// RefreshLoad is Refresh without the usage of pods. An observation of pods covers refresh.WorkloadInterval: do not refresh
// statistics more often.
func (p *Provider) RefreshLoad(ctx context.Context) { p.refresh(ctx, false) }

func (p *Provider) refresh(ctx context.Context, withStatistics bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.served, p.servedErr = nil, nil; p.read != nil {
		p.served, p.servedErr = p.read(ctx, withStatistics)
		if p.served != nil && p.clock.Since(p.served.Time).Abs() > maxSkew {
			p.served, p.servedErr = nil, fmt.Errorf("its clock and this machine's differ by %s; set them by NTP",
				p.clock.Since(p.served.Time).Abs().Round(time.Second))
		}
	}
	var wait sync.WaitGroup
	for _, s := range p.sources {
		if s.status.Adopted = s.adopt(p.served, p.clock.Now()); s.status.Adopted {
			continue
		}
		p.lacks(s.status.Label)
		wait.Go(func() {
			err := s.watcher.Refresh(ctx)
			s.status.Outcome = s.watcher.Outcome()
			s.status.Err = err // also if ctx was done, or the source panicked
		})
	}
	for _, s := range p.statistics {
		if !withStatistics {
			break
		}
		if s.status.Adopted = s.adopt(p.served); s.status.Adopted {
			continue
		}
		p.lacks(s.status.Label)
		wait.Go(func() {
			_ = s.watcher.Refresh(ctx) // the outcome tells it
			s.status.WorkloadOutcome = s.watcher.Outcome()
		})
	}
	wait.Wait()
}

// lacks notes that a scheduler does not serve a source. mu must be held.
func (p *Provider) lacks(label string) {
	if p.served != nil && p.servedErr == nil {
		p.servedErr = fmt.Errorf("the scheduler does not read %s with these settings, has no load yet, or has another version (%s)",
			label, text.Excerpt(p.served.Version))
	}
}

// Examine reads the sources that the last Refresh adopted from a scheduler, for their outcome. The load stays the scheduler's.
func (p *Provider) Examine(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var wait sync.WaitGroup
	for _, s := range p.sources {
		if !s.status.Adopted {
			continue
		}
		wait.Go(func() {
			err := s.watcher.Refresh(ctx)
			s.adopt(p.served, p.clock.Now())
			s.status.Outcome = s.watcher.Outcome()
			s.status.Err = err
		})
	}
	wait.Wait()
}

// Sources returns the sources of load, in the order in which they were first asked for.
func (p *Provider) Sources() []SourceStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]SourceStatus, len(p.sources))
	for i, s := range p.sources {
		all[i] = s.status
		all[i].Readers = slices.Clone(s.status.Readers)
	}
	return all
}

// AllStatistics returns all statistics of workloads, in the order in which they were first asked for.
func (p *Provider) AllStatistics() []StatisticsStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]StatisticsStatus, len(p.statistics))
	for i, s := range p.statistics {
		all[i] = s.status
	}
	return all
}

// unopened is a source that could not be opened.
type unopened struct {
	name string
	err  error
}

var (
	_ source.Source    = unopened{}
	_ source.PodSource = unopened{}
)

// unopened returns a source that fails with err whenever it is read. It fails with err now if sources are not read on demand.
func (p *Provider) unopened(name string, err error) (unopened, error) {
	if !p.onDemand {
		return unopened{}, err
	}
	return unopened{name, err}, nil
}

// Name implements source.Source and source.PodSource.
func (u unopened) Name() string { return u.name }

func (u unopened) Fetch(context.Context, source.Request) (source.Batch, error) {
	return source.Batch{}, u.err
}

func (u unopened) FetchPods(context.Context, int, func(*source.PodUsage)) (failed [load.ResourceCount]error) {
	for r := range failed {
		failed[r] = u.err
	}
	return failed
}

func nameOf(spec config.LoadSpec) string {
	if spec.WatcherAddress != "" {
		return "load-watcher"
	}
	return cmp.Or(string(spec.MetricProvider.Type), "source")
}

func podSourceNameOf(spec config.LoadSpec) string {
	if spec.ReadsPodsFromPrometheus() {
		return string(config.Prometheus)
	}
	return string(config.KubernetesMetricsServer)
}

package loadwatcher

import (
	"encoding/json"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/loadwatcherclient/wire"
)

const (
	// Windows of one response may end minSpread apart, however often the source is read.
	// They end at each node's last scrape, often once a minute, and a scrape may be late.
	minSpread = 90 * time.Second
	// minValidity bounds how often a response is encoded while the source is down and nodes expire one by one.
	minValidity = time.Second
)

// cachedResponse is the latest response over one window.
type cachedResponse struct {
	mu       sync.Mutex
	snapshot *load.Snapshot
	// validUntil is when body expires.
	validUntil time.Time
	body       []byte
}

// responseOver returns the load of all nodes over a served window as JSON; nil if no load is known. Concurrent calls wait for one
// to encode it.
func (s *server) responseOver(logger klog.Logger, window time.Duration) []byte {
	c, snapshot, now := s.responses[window], s.publisher.Latest(), s.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.snapshot == snapshot && (c.body == nil || !now.After(c.validUntil)) {
		return c.body // one without load stays true until there is another snapshot
	}
	fresh := s.freshLoad(snapshot.Over(window), s.nodes.Names(), now)
	c.snapshot, c.body = snapshot, s.encode(logger, window, now, fresh.within(max(2*s.trust.RefreshInterval, minSpread)))
	c.validUntil = fresh.until
	if earliest := now.Add(minValidity); earliest.After(c.validUntil) {
		c.validUntil = earliest
	}
	return c.body
}

type freshLoad struct {
	samples []load.Sample
	newest  time.Time
	// until is when the first sample expires.
	until time.Time
}

func (s *server) freshLoad(table *load.Table, names []string, now time.Time) freshLoad {
	fresh := freshLoad{samples: make([]load.Sample, 0, int(load.ResourceCount)*len(names))}
	for _, name := range names {
		for r, m := range table.Node(name) {
			if m.State(now, s.trust) != load.Fresh {
				continue
			}
			sample := load.Sample{Node: name, Window: m.Window, End: m.End}
			sample.Stats[r] = m.Stat
			fresh.samples = append(fresh.samples, sample)
			if until := m.FreshUntil(s.trust); fresh.until.IsZero() || until.Before(fresh.until) {
				fresh.until = until
			}
			if m.End.After(fresh.newest) {
				fresh.newest = m.End
			}
		}
	}
	return fresh
}

// within returns the samples that end within spread of the newest. A response has one end for all nodes, the earliest.
// So a node that is no longer measured would make the load of all others look as old.
// Clients have its last sample, and its age, from an earlier response.
func (f freshLoad) within(spread time.Duration) []load.Sample {
	earliest := f.newest.Add(-spread)
	return slices.DeleteFunc(f.samples, func(s load.Sample) bool { return s.End.Before(earliest) })
}

// encode returns the samples as a response over window; nil without samples. Momentary samples keep their window of 0.
// All others get window, even if the source has been read for less time.
// The format has one window for all nodes. Too long a window makes pods count as uncovered, which is safer than as covered.
func (s *server) encode(logger klog.Logger, window time.Duration, now time.Time, samples []load.Sample) []byte {
	if len(samples) == 0 {
		return nil
	}
	for i := range samples {
		if samples[i].Window != 0 {
			samples[i].Window = window
		}
	}
	body, err := json.Marshal(wire.FromSamples(s.source, now, window, samples))
	if err != nil {
		logger.Error(err, "Load cannot be encoded") // no load that passed load.Stat.Checked does this
		return nil
	}
	return body
}

package server

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/loadwatcher/wire"
)

const (
	// leastSpread is how far apart the readings of one answer may end, however often the source is read: metrics-server's
	// do by what its kubelets measured last.
	leastSpread = time.Minute
	// leastValidity bounds how often an answer is made anew while the source is down and the nodes expire one by one.
	leastValidity = time.Second
)

// cached is the latest answer over one window.
type cached struct {
	mu       sync.Mutex
	snapshot *load.Snapshot
	// until is the last moment at which answer is true of snapshot.
	until  time.Time
	answer *answer
}

// answer is the load of nodes, encoded; without a body no load is known.
type answer struct {
	body   []byte
	packed func() []byte
}

func (a *answer) known() bool { return a.body != nil }

// write sends an answer that is known.
func (a *answer) write(w http.ResponseWriter, r *http.Request) {
	body := a.body
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Vary", "Accept-Encoding")
	if acceptsGzip(r.Header) {
		body = a.packed()
		header.Set("Content-Encoding", "gzip")
	}
	header.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // an error is a client that has gone
}

// acceptsGzip tells whether the client names gzip as an encoding that it takes.
func acceptsGzip(header http.Header) bool {
	for _, encoding := range strings.Split(strings.Join(header.Values("Accept-Encoding"), ","), ",") {
		name, weight, _ := strings.Cut(encoding, ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		_, q, weighted := strings.Cut(weight, "=")
		if !weighted {
			return true
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(q), 64)
		return err == nil && value > 0
	}
	return false
}

// answer returns the load of all nodes over a window that is served. Concurrent calls wait for the one that makes it.
func (s *server) answer(logger klog.Logger, window time.Duration) *answer {
	c, snapshot, now := s.answers[window], s.config.Publisher.Latest(), s.config.Clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answer != nil && c.snapshot == snapshot && (!c.answer.known() || !now.After(c.until)) {
		return c.answer // one that knows of no load stays true until there is another snapshot
	}
	fresh := s.fresh(snapshot.Over(window), s.config.Nodes.Names(), now)
	c.snapshot, c.answer = snapshot, s.encode(logger, window, now, fresh.together(s.spread()))
	c.until = fresh.until
	if least := now.Add(leastValidity); least.After(c.until) {
		c.until = least
	}
	return c.answer
}

// answerOf returns the load of one node over a window that is served.
func (s *server) answerOf(logger klog.Logger, node string, window time.Duration) *answer {
	now := s.config.Clock.Now()
	fresh := s.fresh(s.config.Publisher.Latest().Over(window), []string{node}, now)
	return s.encode(logger, window, now, fresh.samples)
}

func (s *server) spread() time.Duration { return max(2*s.config.Trust.RefreshInterval, leastSpread) }

// readings are those of a table that are fresh.
type readings struct {
	samples []load.Sample
	// newest is the latest end of any of them.
	newest time.Time
	// until is the last moment at which all of them are fresh.
	until time.Time
}

// fresh returns the fresh readings of the named nodes, a sample for each resource.
func (s *server) fresh(table *load.Table, names []string, now time.Time) readings {
	r := readings{samples: make([]load.Sample, 0, 2*len(names))}
	for _, name := range names {
		for resource, m := range table.Node(name) {
			if m.State(now, s.config.Trust) != load.Fresh {
				continue
			}
			sample := load.Sample{Node: name, Window: m.Window, End: m.End}
			sample.Stats[resource] = m.Stat
			r.samples = append(r.samples, sample)
			if until := m.FreshUntil(s.config.Trust); r.until.IsZero() || until.Before(r.until) {
				r.until = until
			}
			if m.End.After(r.newest) {
				r.newest = m.End
			}
		}
	}
	return r
}

// together returns the readings that end within spread of the newest. An answer has one end for all, that of its earliest:
// with the last reading of a node that is measured no more, the load of all others would look as old as that. Who has read
// an earlier answer knows that node's last reading and its age.
func (r readings) together(spread time.Duration) []load.Sample {
	earliest := r.newest.Add(-spread)
	kept := make([]load.Sample, 0, len(r.samples))
	for i := range r.samples {
		if !r.samples[i].End.Before(earliest) {
			kept = append(kept, r.samples[i])
		}
	}
	return kept
}

// encode returns the samples as an answer over window. Readings of the moment stay what they are. All others are told to be
// over the window, also where a source that knows but the present has not been read for so long yet: the format has one
// span for all, and pods are rather taken for not yet seen than for seen.
func (s *server) encode(logger klog.Logger, window time.Duration, made time.Time, samples []load.Sample) *answer {
	if len(samples) == 0 {
		return &answer{}
	}
	for i := range samples {
		if samples[i].Window != 0 {
			samples[i].Window = window
		}
	}
	var body bytes.Buffer
	if err := wire.Encode(&body, wire.FromSamples(s.config.Source, made, window, samples)); err != nil {
		logger.Error(err, "Load cannot be served") // no load that passed load.Stat.Checked comes here
		return &answer{}
	}
	plain := body.Bytes()
	return &answer{body: plain, packed: sync.OnceValue(func() []byte { return pack(plain) })}
}

func pack(plain []byte) []byte {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(plain) // a Buffer takes everything
	_ = w.Close()
	return packed.Bytes()
}

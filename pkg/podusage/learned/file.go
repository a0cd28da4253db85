package learned

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

const (
	// fileVersion is the version of the format. Change it with every change of the format or of the hashes.
	fileVersion = 1
	// ClockSkew is how far the clock of another machine may be ahead that wrote the file.
	ClockSkew = 5 * time.Second
	// maxNoteBytes bounds the note. It is text, which is more work to read than the records.
	maxNoteBytes = 16 << 10
)

var (
	fileMagic = [8]byte([]byte("plimsoll"))
	fileOrder = binary.LittleEndian
)

// fileHeader is followed by a note, and by as many records of each kind as it says. At the end is a SHA-256 of all of that.
type fileHeader struct {
	Magic   [8]byte
	Version uint32
	// Note is its length.
	Note, Workloads, Startups, Likes uint32
	Key                              key
	// Times are in nanoseconds since 1970, and 0 if unknown.
	At, Interval, ClusterAt   int64
	UsagePerRequest, Observed [load.ResourceCount]float64
}

type fileWorkload struct {
	Hash      uint64
	Resources [load.ResourceCount]struct{ PodSeconds, Mean, Variance, Within float32 }
	Seen      uint32
	Rank      uint32
}

type fileStartup struct {
	Hash                            uint64
	Intervals, First, Seconds, Next float32
	Seen                            uint32
}

type fileLikeness struct {
	Hash, Namespace uint64
	Names           [resemblances]uint64
}

// Encode returns the statistics and a note for Decode. It leaves out single pods: their usage is measured anew. The result is as
// secret as the key in it.
func (s *Statistics) Encode(note []byte) []byte {
	workloads := make([]fileWorkload, 0, len(s.workloads))
	startups := make([]fileStartup, 0, len(s.startups))
	likes := make([]fileLikeness, 0, len(s.groups.likes))
	for hash, e := range s.workloads {
		w := fileWorkload{Hash: hash, Seen: e.seen, Rank: e.rank}
		for r := range e.resources {
			from := &e.resources[r]
			to := &w.Resources[r]
			to.PodSeconds, to.Mean, to.Variance, to.Within = from.podSeconds, from.mean, from.variance, from.within
		}
		workloads = append(workloads, w)
		// Both may still have workloads that are forgotten.
		if e, ok := s.startups[hash]; ok {
			startups = append(startups, fileStartup{hash, e.intervals, e.first, e.seconds, e.next, e.seen})
		}
		if like, ok := s.groups.likes[hash]; ok {
			likes = append(likes, fileLikeness{hash, like.namespace, like.names})
		}
	}
	header := fileHeader{
		Magic: fileMagic, Version: fileVersion, Note: uint32(len(note)), Workloads: uint32(len(workloads)),
		Startups: uint32(len(startups)), Likes: uint32(len(likes)), Key: s.key,
		At: nanoseconds(s.at), Interval: int64(s.interval), ClusterAt: nanoseconds(s.cluster.at),
		UsagePerRequest: s.cluster.UsagePerRequest, Observed: s.cluster.observed,
	}
	data := make([]byte, 0, header.size())
	for _, part := range []any{&header, note, workloads, startups, likes} {
		data, _ = binary.Append(data, fileOrder, part) // all of them have a fixed size
	}
	checksum := sha256.Sum256(data)
	return append(data, checksum[:]...)
}

func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func timeOf(nanoseconds int64) time.Time {
	if nanoseconds == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds)
}

// size is that of the file.
func (h *fileHeader) size() int {
	return binary.Size(h) + int(h.Note) + int(h.Workloads)*binary.Size(fileWorkload{}) + int(h.Startups)*binary.Size(fileStartup{}) +
		int(h.Likes)*binary.Size(fileLikeness{}) + sha256.Size
}

// Decode returns the statistics and the note of Encode. It fails if the data is not as Encode wrote it, or if the statistics cannot
// continue now.
func Decode(data []byte, now time.Time, c Config) (*Statistics, []byte, error) {
	var header fileHeader
	if _, err := binary.Decode(data, fileOrder, &header); err != nil || header.Magic != fileMagic {
		return nil, nil, errors.New("it is not a file of statistics")
	}
	if err := header.check(data, now, c); err != nil {
		return nil, nil, err
	}
	rest := data[binary.Size(&header):]
	note, rest := rest[:header.Note], rest[header.Note:]
	workloads, startups := make([]fileWorkload, header.Workloads), make([]fileStartup, header.Startups)
	likes := make([]fileLikeness, header.Likes)
	for _, part := range []any{workloads, startups, likes} {
		n, _ := binary.Decode(rest, fileOrder, part) // check has compared the size
		rest = rest[n:]
	}
	s := header.statistics()
	if !s.load(workloads, startups, likes) {
		return nil, nil, errors.New("it has impossible values")
	}
	return s, note, nil
}

// check checks all but the records and the note.
func (h *fileHeader) check(data []byte, now time.Time, c Config) error {
	if h.Version != fileVersion {
		return fmt.Errorf("it has version %d of the format, and this program has version %d", h.Version, fileVersion)
	}
	if h.Note > maxNoteBytes {
		return fmt.Errorf("it has a note of %d bytes, of %d that are allowed", h.Note, maxNoteBytes)
	}
	if int(h.Workloads) > c.MaxWorkloads {
		return fmt.Errorf("it has %d workloads, of %d that are allowed", h.Workloads, c.MaxWorkloads)
	}
	if len(data) != h.size() {
		return fmt.Errorf("it has %d bytes instead of %d", len(data), h.size())
	}
	content, checksum := data[:len(data)-sha256.Size], data[len(data)-sha256.Size:]
	if sha256.Sum256(content) != [sha256.Size]byte(checksum) {
		return errors.New("its checksum differs: it was changed")
	}
	at := timeOf(h.At)
	if latest := now.Add(ClockSkew); at.After(latest) || timeOf(h.ClusterAt).After(latest) {
		return fmt.Errorf("it is of %s, and the clock shows %s", at.UTC(), now.UTC())
	}
	if at.Before(now.Add(-c.History)) {
		return fmt.Errorf("it is of %s, longer ago than the history of %s", at.UTC(), c.History)
	}
	return nil
}

func (h *fileHeader) statistics() *Statistics {
	return &Statistics{
		at: timeOf(h.At), key: h.Key, seed: maphash.MakeSeed(), interval: time.Duration(h.Interval),
		cluster: ClusterUsage{UsagePerRequest: h.UsagePerRequest, observed: h.Observed, at: timeOf(h.ClusterAt)},
	}
}

// load adds the records. It reports whether all values are possible.
func (s *Statistics) load(workloads []fileWorkload, startups []fileStartup, likes []fileLikeness) bool {
	at, valid := uint32(max(s.at.Unix(), 0)), s.interval >= 0 && s.interval <= maxInterval && s.cluster.valid()
	s.workloads, s.startups = make(map[uint64]entry, len(workloads)), make(map[uint64]startupEntry, len(startups))
	for i := range workloads {
		e := workloads[i].entry()
		valid = valid && e.valid(at)
		s.workloads[workloads[i].Hash] = e
	}
	for _, from := range startups {
		e := startupEntry{intervals: from.Intervals, first: from.First, seconds: from.Seconds, next: from.Next, seen: from.Seen}
		_, known := s.workloads[from.Hash]
		valid = valid && known && e.valid(at, s.interval)
		s.startups[from.Hash] = e
	}
	members := make(map[uint64]likeness, len(likes))
	for _, from := range likes {
		_, known := s.workloads[from.Hash]
		valid = valid && known
		members[from.Hash] = likeness{from.Namespace, from.Names}
	}
	// A hash that occurs twice is missing in its map.
	if !valid || len(s.workloads) < len(workloads) || len(s.startups) < len(startups) || len(members) < len(likes) {
		return false
	}
	s.groups = s.group(members)
	return true
}

func (w *fileWorkload) entry() entry {
	e := entry{seen: w.Seen, rank: w.Rank}
	for r := range w.Resources {
		from := &w.Resources[r]
		to := &e.resources[r]
		to.podSeconds, to.mean, to.variance, to.within = from.PodSeconds, from.Mean, from.Variance, from.Within
	}
	return e
}

const (
	// slack exceeds what rounding to float32 adds to the bounds of Observation.valid.
	slack = 2
	// maxWeight is more than all pods are observed for, in seconds, and more than they request. Sums of it are finite.
	maxWeight = 1e36
	// maxInterval is longer than any interval of observations.
	maxInterval = 24 * time.Hour
)

// inRange reports whether the value is in [0, most]. NaN is not.
func inRange[T float32 | float64](value T, most float64) bool {
	return value >= 0 && float64(value) <= most
}

// valid reports whether the entry can be that of statistics of the given moment.
func (e *entry) valid(at uint32) bool {
	for r := range e.resources {
		m := &e.resources[r]
		if !inRange(m.podSeconds, maxWeight) || !inRange(m.mean, maxUsage) ||
			!inRange(m.variance, slack*maxUsage*maxUsage) || !inRange(m.within, slack*maxUsage*maxUsage) {
			return false
		}
	}
	return e.seen <= at
}

func (e *startupEntry) valid(at uint32, interval time.Duration) bool {
	return inRange(e.intervals, maxWeight) && inRange(e.first, slack*maxUsage) && inRange(e.next, slack*maxUsage) &&
		inRange(e.seconds, slack*interval.Seconds()) && e.seen <= at
}

func (c *ClusterUsage) valid() bool {
	for r := range c.UsagePerRequest {
		if !inRange(c.UsagePerRequest[r], slack*maxUsageRatio) || !inRange(c.observed[r], maxWeight) {
			return false
		}
	}
	return true
}

package learned

import (
	"bytes"
	"crypto/sha256"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
)

// toSave has workloads of one image, a workload with a startup, and a usage per request.
func toSave() *Prediction {
	usages := alike("shop/api", 700)
	maps.Copy(usages, map[*corev1.Pod]float64{running("old"): 100})
	p := priorsOf(AllPriors, usages)
	tally := NewTally("", podusage.Amounts{})
	tally.Add(running("old"), load.CPU, 100, 200, 1)
	tally.Add(running("new"), load.CPU, 1000, 1000, 0.5)
	tally.Add(running("new"), load.Memory, 1<<30, 0, 0.5)
	p.Statistics = p.Statistics.WithTally(tally, start.Add(span), span, Config{History: day, MaxWorkloads: 1000, Groups: true})
	return p
}

func decode(data []byte, now time.Time) (*Statistics, []byte, error) {
	return Decode(data, now, bounds)
}

func TestEncode(t *testing.T) {
	before := toSave()
	s, note, err := decode(before.Statistics.Encode([]byte("a note")), start.Add(time.Hour))
	if err != nil || string(note) != "a note" {
		t.Fatalf("note %q, %v", note, err)
	}
	after := before.At(s)
	if !s.At().Equal(start.Add(span)) || s.Len() != 13 {
		t.Errorf("%d workloads at %v, want 13 at %v", s.Len(), s.At(), start.Add(span))
	}
	if got, want := s.Cluster().UsagePerRequest, before.Statistics.Cluster().UsagePerRequest; got != want || got[load.CPU] == 0 {
		t.Errorf("usage per request %v, want %v", got, want)
	}
	known, like, unlike := running(""), similarPod("ns", "canary", "shop/api:2", alone("1", "")), similarPod("ns", "x", "x", container("1", ""))
	for name, pod := range map[string]*corev1.Pod{"with history": known, "with groups": like, "without either": unlike} {
		if got, want := after.Incoming(pod), before.Incoming(pod); got != want {
			t.Errorf("a pod %s: usages %+v, want %+v", name, got, want)
		}
		if diff := cmp.Diff(before.Explain(pod), after.Explain(pod), cmpopts.EquateComparable(podusage.Part{})); diff != "" {
			t.Errorf("a pod %s: explanation (-want +got):\n%s", name, diff)
		}
	}
	if after.Incoming(known)[load.CPU].Startup == 0 || after.prior(new(after.likeness(like)), load.CPU, &Usage{Mean: 500}, false).weight == 0 {
		t.Error("no startup, or no prior: the test shows nothing")
	}
	// Both go on alike.
	later := []Observation{observed("web", start.Add(2*span), 300)}
	x, y := learn(before.Statistics, later...).Lookup(workload("web")), learn(s, later...).Lookup(workload("web"))
	if x != y {
		t.Errorf("after one more observation: %+v, want %+v", y, x)
	}
}

func TestEncode_LeavesOutForgottenWorkloads(t *testing.T) {
	s := toSave().Statistics
	forgotten := s.With([]Observation{observed("other", start.Add(4*day), 1)}, ClusterUsage{}, bounds)
	if len(forgotten.startups) == 0 || len(forgotten.groups.likes) == 0 {
		t.Fatal("the test shows nothing")
	}
	got, _, err := decode(forgotten.Encode(nil), start.Add(4*day))
	if err != nil || got.Len() != 1 || len(got.startups)+len(got.groups.likes) != 0 {
		t.Errorf("%+v, %v; want the other workload alone", got, err)
	}
}

// resealed returns the data with a right checksum.
func resealed(data []byte) []byte {
	content := bytes.Clone(data[:max(len(data)-sha256.Size, 0)])
	checksum := sha256.Sum256(content)
	return append(content, checksum[:]...)
}

func TestDecode_RefusesDamage(t *testing.T) {
	data := toSave().Statistics.Encode([]byte("a note"))
	now := start.Add(time.Hour)
	for name, tt := range map[string]struct {
		change func([]byte) []byte
		now    time.Time
		want   string
	}{
		"no content":      {func([]byte) []byte { return nil }, now, "not a file of statistics"},
		"another file":    {func([]byte) []byte { return []byte(strings.Repeat("#!/bin/sh\n", 100)) }, now, "not a file of statistics"},
		"a header alone":  {func(d []byte) []byte { return d[:120] }, now, "bytes instead of"},
		"truncated":       {func(d []byte) []byte { return d[:len(d)-1] }, now, "bytes instead of"},
		"longer":          {func(d []byte) []byte { return append(d, 0) }, now, "bytes instead of"},
		"a changed bit":   {func(d []byte) []byte { d[len(d)/2] ^= 1; return d }, now, "checksum differs"},
		"another version": {func(d []byte) []byte { d[8] = 2; return resealed(d) }, now, "version 2"},
		// Behind the version, the length of the note and the number of workloads.
		"a long note":      {func(d []byte) []byte { d[14] = 1; return resealed(d) }, now, "a note of 65542 bytes, of 16384"},
		"many workloads":   {func(d []byte) []byte { d[19] = 0xff; return resealed(d) }, now, "workloads, of 100"},
		"many startups":    {func(d []byte) []byte { d[20] = 14; return resealed(d) }, now, "bytes instead of"},
		"a clock set back": {func(d []byte) []byte { return d }, start, "2026-01-02 03:05:00 +0000 UTC, and the clock shows 2026-01-02 03:00:00"},
		"an old file":      {func(d []byte) []byte { return d }, start.Add(day + span + time.Second), "longer ago than the history of 24h0m0s"},
	} {
		s, note, err := decode(tt.change(bytes.Clone(data)), tt.now)
		if s != nil || note != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, %q, error %v; want only one with %q", name, s, note, err, tt.want)
		}
	}
	for what, now := range map[string]time.Time{
		"a file as old as the history": start.Add(day + span), "a clock that is 5 s behind": start.Add(span - 5*time.Second),
	} {
		if _, _, err := decode(data, now); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestDecode_RefusesImpossibleValues(t *testing.T) {
	web := workload("web")
	changeWeb := func(change func(*entry)) func(*Statistics) {
		return func(s *Statistics) {
			e := s.workloads[s.hash(web)]
			change(&e)
			s.workloads[s.hash(web)] = e
		}
	}
	changeStart := func(change func(*startupEntry)) func(*Statistics) {
		return func(s *Statistics) {
			e := s.startups[s.hash(web)]
			change(&e)
			s.startups[s.hash(web)] = e
		}
	}
	nan, infinite := float32(math.NaN()), float32(math.Inf(1))
	for name, change := range map[string]func(*Statistics){
		"pod time NaN":        changeWeb(func(e *entry) { e.resources[0].podSeconds = nan }),
		"infinite pod time":   changeWeb(func(e *entry) { e.resources[1].podSeconds = infinite }),
		"a negative mean":     changeWeb(func(e *entry) { e.resources[0].mean = -1 }),
		"a large mean":        changeWeb(func(e *entry) { e.resources[0].mean = 3e15 }),
		"a negative variance": changeWeb(func(e *entry) { e.resources[0].variance = -1 }),
		"a large variance":    changeWeb(func(e *entry) { e.resources[0].variance = 3e30 }),
		"within NaN":          changeWeb(func(e *entry) { e.resources[0].within = nan }),
		"seen later":          changeWeb(func(e *entry) { e.seen++ }),
		"intervals NaN":       changeStart(func(e *startupEntry) { e.intervals = nan }),
		"a large start":       changeStart(func(e *startupEntry) { e.first = 3e15 }),
		"a negative next":     changeStart(func(e *startupEntry) { e.next = -1 }),
		"a long start":        changeStart(func(e *startupEntry) { e.seconds = 601 }),
		"a start seen later":  changeStart(func(e *startupEntry) { e.seen++ }),
		"a negative interval": func(s *Statistics) { s.interval = -1 },
		"a long interval":     func(s *Statistics) { s.interval = 25 * time.Hour },
		"a ratio NaN":         func(s *Statistics) { s.cluster.UsagePerRequest[0] = math.NaN() },
		"a large ratio":       func(s *Statistics) { s.cluster.UsagePerRequest[0] = 4 },
		"infinite requests":   func(s *Statistics) { s.cluster.observed[1] = math.Inf(1) },
	} {
		s := toSave().Statistics
		change(s)
		if got, _, err := decode(s.Encode(nil), start.Add(time.Hour)); got != nil || err == nil || err.Error() != "it has impossible values" {
			t.Errorf("%s: %v, error %v; want that a value is impossible", name, got, err)
		}
	}
	// The header has 100 bytes. The record of a workload has 48, and begins with its hash of 8.
	twice := learn(&Statistics{}, observed("a", start, 1), observed("b", start, 1)).Encode(nil)
	copy(twice[148:156], twice[100:108])
	// Likenesses are last, and each has 48 bytes too. A startup is before them, and has 28.
	unlike := toSave().Statistics.Encode(nil)
	unlike[len(unlike)-sha256.Size-48] ^= 1
	unstarted := toSave().Statistics.Encode(nil)
	unstarted[len(unstarted)-sha256.Size-13*48-28] ^= 1
	for name, data := range map[string][]byte{
		"a workload twice": twice, "a likeness of an unknown workload": unlike, "a startup of an unknown workload": unstarted,
	} {
		if got, _, err := decode(resealed(data), start.Add(time.Hour)); got != nil || err == nil {
			t.Errorf("%s: %v, error %v; want an error", name, got, err)
		}
	}
}

// FuzzDecode decodes any content with a right checksum. What it accepts can continue, and is encoded again.
func FuzzDecode(f *testing.F) {
	data := toSave().Statistics.Encode([]byte("a note"))
	f.Add(data[:len(data)-sha256.Size])
	data = learn(&Statistics{}, observed("web", start, 100)).Encode(nil)
	f.Add(data[:len(data)-sha256.Size])
	f.Fuzz(func(t *testing.T, content []byte) {
		s, note, err := decode(resealed(append(content, make([]byte, sha256.Size)...)), start.Add(time.Hour))
		if err != nil {
			return
		}
		s = learn(s, observed("web", start.Add(2*time.Hour), 100))
		tally := NewTally("", podusage.Amounts{load.CPU: 8000})
		tally.Add(podOf("web"), load.CPU, 100, 200, 0.5)
		s = s.WithTally(tally, start.Add(3*time.Hour), span, Config{History: day, MaxWorkloads: 100, Groups: true})
		for _, e := range s.workloads {
			for r := range load.ResourceCount {
				m := e.moments(r)
				u := known(&m, math.Inf(1))
				checkUsage(t, &u)
			}
		}
		usages := Predictor{Multiplier: 1.5, MaxRequestRatio: 10, Priors: AllPriors}.At(s).Incoming(podOf("other", container("1", "2")))
		for r := range usages {
			checkUsage(t, &usages[r])
		}
		if _, again, err := decode(s.Encode(note), start.Add(3*time.Hour)); err != nil || !bytes.Equal(again, note) {
			t.Errorf("encoded again: %v", err)
		}
	})
}

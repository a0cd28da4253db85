package input

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// generated is a day of pods like those of package generate.
func generated(t *testing.T) *Input {
	t.Helper()
	const nodes, workloads, pods, machines = 3, 20, 200, 10
	r := rand.New(rand.NewPCG(1, 2))
	in := &Input{
		Name: "flat, seed 1", Seed: 1, Start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Length: Day, Counted: Day - 3*time.Hour,
	}
	for i := range nodes {
		in.Nodes = append(in.Nodes,
			Node{fmt.Sprint("node-", i), fmt.Sprint("zone-", string(rune('a'+i))), Amounts{8000, 32 << 30}})
	}
	for i := range workloads {
		name := fmt.Sprint("app-", i)
		w := Workload{
			Namespace: fmt.Sprint("team-", i%5), Name: name, Requests: Amounts{100, 1 << 20},
		}
		w.Limits.CPUMillis = float64(i % 2 * 500)
		in.Workloads = append(in.Workloads, w)
	}
	traces := make([][]float32, machines)
	for i := range traces {
		for range Day / TraceStep {
			traces[i] = append(traces[i], r.Float32())
		}
	}
	for i := range pods {
		in.Pods = append(in.Pods, Pod{
			Workload: r.IntN(workloads), Arrival: time.Duration(i) * 7 * time.Minute,
			Lifetime: time.Duration(1 + r.Int64N(int64(3*time.Hour))), Trace: traces[r.IntN(machines)], CPUMillis: 1000 * r.Float32(),
			Noise: r.IntN(NoiseLength), MemoryBytes: 1e9 * r.Float64(),
		})
	}
	in.Pods[0].Noise = -1 // as in a real cluster
	return in
}

func TestFile(t *testing.T) {
	in := generated(t)
	in.Length = MaxDays * Day // of files in a row
	for _, name := range []string{"pods.jsonl", "pods.jsonl.gz"} {
		file := filepath.Join(t.TempDir(), name)
		check.OK(t, Save(file, in))
		loaded := check.Value(Load(file))(t)
		for i := range in.Pods {
			p := &in.Pods[i]
			start := Ticks(p.Arrival)
			want, got := in.DemandOf(p, nil), loaded.DemandOf(&loaded.Pods[i], nil)
			for tick := start; tick < Ticks(min(p.Arrival+p.Lifetime, in.Length)); tick++ {
				if difference := want.At(tick) - got.At(tick); difference > 0.01 || difference < -0.01 {
					t.Fatalf("pod %d uses %v in tick %d, want %v", i, got.At(tick), tick, want.At(tick))
				}
			}
			loaded.Pods[i].Trace, loaded.Pods[i].TraceFrom, loaded.Pods[i].CPUMillis = p.Trace, p.TraceFrom, p.CPUMillis
		}
		check.Equal(t, name+" (want: saved)", in, loaded)
	}
}

func TestParseInput_Invalid(t *testing.T) {
	const (
		header   = `{"format":"plimsoll.replay/v1","name":"n","start":"2026-01-01T00:00:00Z","lengthSeconds":3600,"countedSeconds":3600}` + "\n"
		node     = `{"node":{"name":"a","capacity":{"cpuMillis":1000,"memoryBytes":1e9}}}` + "\n"
		workload = `{"workload":{"namespace":"n","name":"w"}}` + "\n"
	)
	for _, tc := range []struct{ name, content, want string }{
		{"nothing", "", "empty"},
		{"another format", `{"format":"x"}`, "line 1"},
		{"no JSON", "x", "line 1"},
		{"a longer count than length", strings.Replace(header, `"countedSeconds":3600`, `"countedSeconds":7200`, 1), "countedSeconds"},
		{"a year", strings.ReplaceAll(header, "3600", "31536000"), "lengthSeconds"},
		{"no start", strings.Replace(header, `"start":"2026-01-01T00:00:00Z",`, "", 1), "line 1: start: required"},
		{"a start before 1970", strings.Replace(header, "2026", "1969", 1), "line 1: start: 1969"},
		{"a start that is far away", strings.Replace(header, "2026", "2262", 1), "line 1: start: 2262"},
		{"no node", header, "no node"},
		{"an empty line", header + "{}", "line 2: want one of"},
		{"a node of nearly no capacity", header + `{"node":{"name":"a","capacity":{"cpuMillis":1e-9,"memoryBytes":1}}}`, "from 1 to 2^60"},
		{"a node without capacity", header + `{"node":{"name":"a"}}`, "line 2: node \"a\""},
		{"a node twice", header + node + node, "line 3: node \"a\""},
		{"a workload without a namespace", header + `{"workload":{"name":"w"}}`, "line 2: workload"},
		{"a pod of no workload", header + node + `{"pod":{"workload":0,"lifetimeSeconds":1,"cpuMillis":[1]}}`, "line 3: pod: workload is 0"},
		{"a pod from before", header + workload + `{"pod":{"workload":0,"arrivalSeconds":-1,"lifetimeSeconds":1,"cpuMillis":[1]}}`, "arrivalSeconds"},
		{"a pod without lifetime", header + workload + `{"pod":{"workload":0,"cpuMillis":[1]}}`, "lifetimeSeconds"},
		{"a pod without usage", header + workload + `{"pod":{"workload":0,"lifetimeSeconds":1,"cpuMillis":[]}}`, "cpuMillis"},
		{"a noise that is none", header + workload + `{"pod":{"workload":0,"lifetimeSeconds":1,"cpuMillis":[1],"noise":-1}}`, "noise is -1"},
		{"a usage above the bound", header + workload + `{"pod":{"workload":0,"lifetimeSeconds":1,"cpuMillis":[1.1e9]}}`, "cpuMillis"},
		{"a lifetime below a nanosecond", header + workload + `{"pod":{"workload":0,"lifetimeSeconds":1e-10,"cpuMillis":[1]}}`, "lifetimeSeconds"},
		{"a negative usage", header + workload + `{"pod":{"workload":0,"lifetimeSeconds":1,"cpuMillis":[-1]}}`, "cpuMillis"},
		{"a line without end", header + strings.Repeat("x", maxLineBytes+1), "too long"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := parseInput(strings.NewReader(tc.content))
			check.Error(t, err, tc.want)
		})
	}
}

// A gzipped line of a thousand bytes has less than a hundred. The reader stops at the bound.
func TestReadFile_Bound(t *testing.T) {
	in := &Input{Name: strings.Repeat("n", 900)}
	for name, most := range map[string]int64{"a.jsonl": 1 << 10, "a.jsonl.gz": 1 << 10, "b.jsonl.gz": 900} {
		file, read := filepath.Join(t.TempDir(), name), 0
		check.OK(t, Save(file, in))
		_, err := ReadFile(file, most, "record less time", func(content io.Reader) (any, error) {
			all, err := io.ReadAll(content)
			read = len(all)
			return nil, err
		})
		if most == 1<<10 {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		} else if want := file + ": unpacked, it has more than 900 bytes; record less time"; err == nil || err.Error() != want || read > 901 {
			t.Errorf("read %d bytes, error %v, want %s", read, err, want)
		}
	}
}

// TestLoad_Large has 257 MiB of lines that end in spaces. A file has 256 MiB at most.
func TestLoad_Large(t *testing.T) {
	var content bytes.Buffer
	w, err := gzip.NewWriterLevel(&content, gzip.BestSpeed)
	check.OK(t, err)
	const header = `{"format":"plimsoll.replay/v1","name":"n","start":"2026-01-01T00:00:00Z","lengthSeconds":3600,"countedSeconds":3600}`
	line := `{"workload":{"namespace":"n","name":"w"}}` + strings.Repeat(" ", maxLineBytes-64) + "\n"
	_, err = io.WriteString(w, header+"\n")
	for range 257 {
		_, failed := io.WriteString(w, line)
		err = errors.Join(err, failed)
	}
	file := filepath.Join(t.TempDir(), "pods.jsonl.gz")
	check.OK(t, errors.Join(err, w.Close(), os.WriteFile(file, content.Bytes(), 0o600)))
	_, err = Load(file)
	check.Error(t, err, "unpacked, it has more than 268435456 bytes")
}

func TestSave_Private(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pods.jsonl")
	check.OK(t, os.WriteFile(file, nil, 0o644)) // of an earlier version
	check.OK(t, Save(file, generated(t)))
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, error %v, want a file that others cannot read", info.Mode(), err)
	}
}

// TestSave_LargeUsage has a usage beyond what a file holds: it is saved as the largest.
func TestSave_LargeUsage(t *testing.T) {
	in := generated(t)
	in.Pods[0].Trace, in.Pods[0].CPUMillis = []float32{2}, 1e9
	file := filepath.Join(t.TempDir(), "pods.jsonl")
	check.OK(t, Save(file, in))
	loaded := check.Value(Load(file))(t)
	check.Equal(t, "usage", 1e9, loaded.Pods[0].Trace[0])
}

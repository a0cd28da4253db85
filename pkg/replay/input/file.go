package input

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

// fileFormat is in a file's first line.
const fileFormat = "plimsoll.replay/v1"

const (
	maxLineBytes = 1 << 20
	maxFileNodes = 20_000
	maxFilePods  = 2_000_000
	maxLength    = MaxDays * Day
	maxNumber    = 1e9
	// maxFileBytes bounds the unpacked content: a day of 700,000 pods.
	maxFileBytes = 256 << 20
	// Nanoseconds since 1970 overflow in 2262.
	minYear, maxYear = 1970, 2200
)

// A file is JSON Lines, gzipped if its name ends in .gz. A header is first, then nodes and workloads, then pods by arrival. Times
// are in seconds from the start. Unset requests and limits are left out.
type (
	fileHeader struct {
		Format string `json:"format"`
		Name   string `json:"name"`
		// Seed is Input.Seed.
		Seed  uint64    `json:"seed,omitempty"`
		Start time.Time `json:"start"`
		// LengthSeconds is the length of the replay. Figures cover CountedSeconds at its end.
		LengthSeconds  float64 `json:"lengthSeconds"`
		CountedSeconds float64 `json:"countedSeconds"`
	}
	filePod struct {
		// Workload is an index of the workloads.
		Workload        int     `json:"workload"`
		ArrivalSeconds  float64 `json:"arrivalSeconds"`
		LifetimeSeconds float64 `json:"lifetimeSeconds"`
		MemoryBytes     float64 `json:"memoryBytes,omitempty"`
		// CPUMillis is the usage in each TraceStep, from the step of the arrival. The last value holds from there on.
		CPUMillis []float64 `json:"cpuMillis"`
		// Noise is Pod.Noise, if the pod has noise.
		Noise *int `json:"noise,omitempty"`
	}
	// fileLine is a line after the header. It has one field.
	fileLine struct {
		Node     *Node     `json:"node,omitempty"`
		Workload *Workload `json:"workload,omitempty"`
		Pod      *filePod  `json:"pod,omitempty"`
	}
)

func (a Amounts) valid() bool {
	const limit = 1 << 60
	return within(a.CPUMillis, 0, limit) && within(a.MemoryBytes, 0, limit)
}

// Save writes the input to a file that its owner alone can read.
func Save(file string, in *Input) (err error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Chmod(0o600); err != nil { // of a file that was there before
		return err
	}
	if !strings.HasSuffix(file, ".gz") {
		return Write(f, in)
	}
	compressed := gzip.NewWriter(f)
	return errors.Join(Write(compressed, in), compressed.Close())
}

// Write writes the input as Save does, not gzipped.
func Write(w io.Writer, in *Input) error {
	out := bufio.NewWriter(w)
	lines := json.NewEncoder(out)
	err := lines.Encode(fileHeader{fileFormat, in.Name, in.Seed, in.Start, in.Length.Seconds(), in.Counted.Seconds()})
	for i := range in.Nodes {
		err = errors.Join(err, lines.Encode(fileLine{Node: &in.Nodes[i]}))
	}
	for i := range in.Workloads {
		err = errors.Join(err, lines.Encode(fileLine{Workload: &in.Workloads[i]}))
	}
	for i := range in.Pods {
		if err != nil {
			break
		}
		p := &in.Pods[i]
		line := filePod{
			Workload: p.Workload, ArrivalSeconds: p.Arrival.Seconds(), LifetimeSeconds: p.Lifetime.Seconds(), MemoryBytes: p.MemoryBytes,
		}
		if p.Noise >= 0 {
			line.Noise = &p.Noise
		}
		first := int(p.Arrival / TraceStep)
		last := max(int(min(p.Arrival+p.Lifetime+Tick, in.Length)/TraceStep), first)
		for sample := first; sample <= last; sample++ {
			// to a hundredth of a milliCPU
			line.CPUMillis = append(line.CPUMillis, math.Round(min(float64(p.Value(sample)*p.CPUMillis), maxNumber)*100)/100)
		}
		err = lines.Encode(fileLine{Pod: &line})
	}
	return errors.Join(err, out.Flush())
}

// Load reads a file of Save.
func Load(file string) (*Input, error) {
	return ReadFile(file, maxFileBytes, "record less time, or fewer pods", parseInput)
}

// ReadFile parses a file, which is gzipped if its name ends in .gz. It fails as soon as the unpacked content passes maxBytes.
// Errors name the file; instead is what to do if it is too large.
func ReadFile[T any](file string, maxBytes int64, instead string, parse func(io.Reader) (T, error)) (parsed T, err error) {
	f, err := os.Open(file)
	if err != nil {
		return parsed, err
	}
	defer func() { _ = f.Close() }() // it is only read
	var content io.Reader = f
	if strings.HasSuffix(file, ".gz") {
		content, err = gzip.NewReader(f)
	}
	if err == nil {
		parsed, err = parse(boundedfile.NewReader(content, maxBytes))
	}
	switch {
	case errors.Is(err, boundedfile.ErrTooLarge):
		return parsed, fmt.Errorf("%s: unpacked, it %w; %s", file, err, instead)
	case err != nil:
		return parsed, fmt.Errorf("%s: %w", file, err)
	}
	return parsed, nil
}

func parseInput(content io.Reader) (*Input, error) {
	lines := bufio.NewScanner(content)
	lines.Buffer(nil, maxLineBytes)
	if !lines.Scan() {
		return nil, cmp.Or(lines.Err(), errors.New("empty file"))
	}
	in, err := parseHeader(lines.Bytes())
	if err != nil {
		return nil, fmt.Errorf("line 1: %w", err)
	}
	for n := 2; lines.Scan(); n++ {
		var line fileLine
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if err := in.add(&line); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(in.Nodes) == 0 {
		return nil, errors.New("no node")
	}
	slices.SortStableFunc(in.Pods, func(a, b Pod) int { return cmp.Compare(a.Arrival, b.Arrival) })
	return in, nil
}

func parseHeader(line []byte) (*Input, error) {
	var header fileHeader
	if err := json.Unmarshal(line, &header); err != nil || header.Format != fileFormat {
		return nil, fmt.Errorf(`want a header with "format": %q`, fileFormat)
	}
	in := &Input{
		Name: text.Excerpt(header.Name), Seed: header.Seed, Start: header.Start,
		Length: seconds(header.LengthSeconds), Counted: seconds(header.CountedSeconds),
	}
	switch year := in.Start.UTC().Year(); {
	case in.Length < Tick || in.Length > maxLength || in.Counted < Tick || in.Counted > in.Length:
		return nil, fmt.Errorf("lengthSeconds is %v and countedSeconds %v; want from %v to %v, and countedSeconds at most lengthSeconds",
			header.LengthSeconds, header.CountedSeconds, Tick.Seconds(), maxLength.Seconds())
	case in.Start.IsZero():
		return nil, errors.New(`start: required, such as "2026-01-01T00:00:00Z"`)
	case year < minYear || year > maxYear:
		return nil, fmt.Errorf("start: %s; want a year from %d to %d", in.Start.Format(time.RFC3339), minYear, maxYear)
	}
	return in, nil
}

func seconds(s float64) time.Duration {
	return time.Duration(math.Round(min(max(s, -1), 1e9) * float64(time.Second)))
}

func (in *Input) add(line *fileLine) error {
	switch {
	case line.Node != nil:
		return in.addNode(line.Node)
	case line.Workload != nil:
		return in.addWorkload(line.Workload)
	case line.Pod != nil:
		return in.addPod(line.Pod)
	}
	return errors.New("want one of node, workload and pod")
}

func (in *Input) addNode(n *Node) error {
	switch {
	case n.Name == "" || !n.Capacity.valid() || n.Capacity.CPUMillis < 1 || n.Capacity.MemoryBytes < 1:
		return fmt.Errorf("node %q: want a name, and a capacity of cpuMillis and memoryBytes from 1 to 2^60", n.Name)
	case slices.ContainsFunc(in.Nodes, func(other Node) bool { return other.Name == n.Name }):
		return fmt.Errorf("node %q: duplicate name", n.Name)
	case len(in.Nodes) == maxFileNodes:
		return fmt.Errorf("more than %d nodes", maxFileNodes)
	}
	in.Nodes = append(in.Nodes, *n)
	return nil
}

func (in *Input) addWorkload(w *Workload) error {
	switch {
	case w.Namespace == "" || w.Name == "" || !w.Requests.valid() || !w.Limits.valid():
		return fmt.Errorf("workload %q: want namespace and name, and requests and limits of at least 0", w.Namespace+"/"+w.Name)
	case len(in.Workloads) == maxFilePods:
		return fmt.Errorf("more than %d workloads", maxFilePods)
	}
	in.Workloads = append(in.Workloads, *w)
	return nil
}

func (in *Input) addPod(p *filePod) error {
	// Files have whole nanoseconds.
	arrival, lifetime := seconds(p.ArrivalSeconds), seconds(p.LifetimeSeconds)
	switch {
	case p.Workload < 0 || p.Workload >= len(in.Workloads):
		return fmt.Errorf("pod: workload is %d; want an index of the %d workloads above it", p.Workload, len(in.Workloads))
	case !within(arrival.Seconds(), 0, in.Length.Seconds()):
		return fmt.Errorf("pod: arrivalSeconds is %v; want from 0 to below lengthSeconds", p.ArrivalSeconds)
	case lifetime <= 0 || p.LifetimeSeconds > maxNumber || !within(p.MemoryBytes, 0, math.Inf(1)):
		return errors.New("pod: want lifetimeSeconds above 0, up to 1e9, and memoryBytes of at least 0")
	case len(p.CPUMillis) == 0:
		return errors.New("pod: cpuMillis is empty; want a value for each five minutes")
	case len(p.CPUMillis) > int(in.Length/TraceStep)+2:
		return fmt.Errorf("pod: cpuMillis has %d values, more than lengthSeconds has", len(p.CPUMillis))
	case p.Noise != nil && !within(float64(*p.Noise), 0, NoiseLength):
		return fmt.Errorf("pod: noise is %d; want from 0 to %d, or leave it out", *p.Noise, NoiseLength-1)
	case len(in.Pods) == maxFilePods:
		return fmt.Errorf("more than %d pods", maxFilePods)
	}
	trace := make([]float32, len(p.CPUMillis))
	for i, v := range p.CPUMillis {
		if v < 0 || v > maxNumber {
			return fmt.Errorf("pod: cpuMillis holds %v; want from 0 to 1e9", v)
		}
		trace[i] = float32(v)
	}
	noise := ptr.Deref(p.Noise, -1)
	in.Pods = append(in.Pods, Pod{
		Workload: p.Workload, Arrival: arrival, Lifetime: lifetime, MemoryBytes: p.MemoryBytes,
		Trace: trace, TraceFrom: int(arrival / TraceStep), CPUMillis: 1, Noise: noise,
	})
	return nil
}

// within reports whether v is in [from, below); false for NaN.
func within(v, from, below float64) bool { return v >= from && v < below }

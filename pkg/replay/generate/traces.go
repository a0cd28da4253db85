package generate

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
)

// Traces are the CPU utilizations of machines over a day.
type Traces struct {
	// Name is that of the day.
	Name string
	// Machines holds a row per machine: its utilization, from 0 to 1, in each TraceStep.
	Machines [][]float32
}

const (
	// samplesPerDay is the length of a row.
	samplesPerDay = int(input.Day / input.TraceStep)
	// maxTraceBytes bounds the uncompressed size of a file.
	maxTraceBytes = 64 << 20
)

// ReadTraces reads the files *.csv and *.csv.gz of a folder, by name. There is a file per day, and a row per machine. A row has a
// CPU utilization in percent for each five minutes.
func ReadTraces(folder string) ([]*Traces, error) {
	var files []string
	for _, pattern := range []string{"*.csv", "*.csv.gz"} {
		found, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: no file *.csv or *.csv.gz: want a file per day, a row per machine, %d CPU utilizations in percent",
			folder, samplesPerDay)
	}
	slices.Sort(files)
	var days []*Traces
	for _, file := range files {
		name, _, _ := strings.Cut(filepath.Base(file), ".")
		parse := func(content io.Reader) (*Traces, error) { return parseTraces(name, content) }
		t, err := input.ReadFile(file, maxTraceBytes, "leave out machines", parse)
		if err != nil {
			return nil, err
		}
		days = append(days, t)
	}
	return days, nil
}

func parseTraces(name string, content io.Reader) (*Traces, error) {
	t := &Traces{Name: name}
	lines := bufio.NewScanner(content)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Split(strings.TrimSpace(lines.Text()), ",")
		if len(fields) != samplesPerDay {
			return nil, fmt.Errorf("line %d: %d values; write %d, one for each five minutes of a day", n, len(fields), samplesPerDay)
		}
		row := make([]float32, len(fields))
		for i, field := range fields {
			percent, err := strconv.ParseFloat(strings.TrimSpace(field), 32)
			if err != nil || !(percent >= 0 && percent <= 100) {
				return nil, fmt.Errorf("line %d: value %d is %q; write a CPU utilization in percent, from 0 to 100", n, i+1, field)
			}
			row[i] = float32(percent / 100)
		}
		t.Machines = append(t.Machines, row)
	}
	switch err := lines.Err(); {
	case err != nil:
		return nil, err
	case len(t.Machines) == 0:
		return nil, errors.New("no row")
	}
	return t, nil
}

func mean(values []float32) float64 {
	sum := 0.0
	for _, v := range values {
		sum += float64(v)
	}
	return sum / float64(len(values))
}

// sorted returns the used machines, sorted by mean.
func (t *Traces) sorted() [][]float32 {
	rows := slices.DeleteFunc(slices.Clone(t.Machines), func(row []float32) bool { return mean(row) == 0 })
	slices.SortStableFunc(rows, func(a, b []float32) int { return cmp.Compare(mean(a), mean(b)) })
	return rows
}

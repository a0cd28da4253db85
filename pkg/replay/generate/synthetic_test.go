package generate

import (
	"math"
	"slices"
	"testing"
)

func TestSynthetic_ResemblesTheMeasuredDays(t *testing.T) {
	traces := Synthetic(1)
	var means, variations, all []float64
	autocorrelation := map[int]float64{}
	logs, logSquares := 0.0, 0.0
	for _, row := range traces.Machines {
		m, squares := mean(row), 0.0
		for _, v := range row {
			squares += (float64(v) - m) * (float64(v) - m)
			all = append(all, 100*float64(v))
		}
		deviation := math.Sqrt(squares / float64(len(row)))
		if deviation == 0 {
			continue
		}
		means, variations = append(means, 100*m), append(variations, deviation/m)
		logs, logSquares = logs+math.Log(100*m), logSquares+math.Log(100*m)*math.Log(100*m)
		for _, lag := range []int{1, 12, 48} {
			sum := 0.0
			for i := range len(row) - lag {
				sum += (float64(row[i]) - m) * (float64(row[i+lag]) - m)
			}
			autocorrelation[lag] += sum / float64(len(row)-lag) / (deviation * deviation) / float64(len(traces.Machines))
		}
	}
	sum := 0.0
	for _, m := range means {
		sum += m
	}
	for _, of := range [][]float64{means, variations, all} {
		slices.Sort(of)
	}
	quantile := func(of []float64, share float64) float64 {
		return of[int(share*float64(len(of)))]
	}
	// The ranges are those of the three measured days, a little wider.
	for _, f := range []struct {
		name          string
		got, from, to float64
	}{
		{"mean of all machines in percent", sum / float64(len(means)), 10, 13.5},
		{"median of the machines' means", quantile(means, 0.5), 5.8, 7.4},
		{"95th percentile of the machines' means", quantile(means, 0.95), 32, 45},
		{"10th percentile of deviation over mean", quantile(variations, 0.1), 0.22, 0.5},
		{"median of deviation over mean", quantile(variations, 0.5), 0.7, 1},
		{"90th percentile of deviation over mean", quantile(variations, 0.9), 1.7, 2.4},
		{"median of all values", quantile(all, 0.5), 4, 6},
		{"90th percentile of all values", quantile(all, 0.9), 28.5, 38},
		{"99th percentile of all values", quantile(all, 0.99), 70, 86},
		{"autocorrelation after 5 minutes", autocorrelation[1], 0.06, 0.13},
		{"autocorrelation after an hour", autocorrelation[12], 0.05, 0.11},
		{"autocorrelation after four hours", autocorrelation[48], 0.0, 0.045},
	} {
		t.Logf("%s: %.3f", f.name, f.got)
		if f.got < f.from || f.got > f.to {
			t.Errorf("%s is %.3f, want from %v to %v", f.name, f.got, f.from, f.to)
		}
	}
	same := func(a, b *Traces) bool { return slices.EqualFunc(a.Machines, b.Machines, slices.Equal) }
	if !same(traces, Synthetic(1)) || same(traces, Synthetic(2)) {
		t.Error("want equal traces for equal seeds alone")
	}
}

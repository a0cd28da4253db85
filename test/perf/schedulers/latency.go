package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/testutil"

	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

// attempts is the histogram of how long attempts took that placed a pod, in seconds.
const attempts = "scheduler_scheduling_attempt_duration_seconds_bucket"

// p99 returns the 99th percentile of the time that an attempt took between two responses with metrics, in seconds.
func p99(before, after cluster.Metrics) (float64, error) {
	histogram := testutil.Histogram{Histogram: &dto.Histogram{}}
	for _, s := range after.Select(attempts, "result", "scheduled") {
		bound := string(s.Metric["le"])
		upper, err := strconv.ParseFloat(bound, 64)
		if err != nil {
			return 0, fmt.Errorf("reading the bucket %q: %w", bound, err)
		}
		count := uint64(float64(s.Value) - before.Sum(attempts, "result", "scheduled", "le", bound))
		histogram.Bucket = append(histogram.Bucket, &dto.Bucket{UpperBound: &upper, CumulativeCount: &count})
	}
	slices.SortFunc(histogram.Bucket, func(a, b *dto.Bucket) int { return cmp.Compare(a.GetUpperBound(), b.GetUpperBound()) })
	p := histogram.Quantile(0.99)
	if math.IsNaN(p) {
		return 0, fmt.Errorf("the scheduler's metrics have no new attempt in %s", attempts)
	}
	return p, nil
}

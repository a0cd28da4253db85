package podusage

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/prometheus/promql"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

// BenchmarkCost measures the cost of reading for Prometheus: processor time of its process, and time of the queries. It reads the
// present usage of pods, and that of six hours and of one look, by names and by recorded rules. Scrapes are 30 s apart.
func BenchmarkCost(b *testing.B) {
	now := time.Now()
	pods := func(count int, length time.Duration) (all []series) {
		for i := range count {
			p := pod{
				namespace: fmt.Sprintf("team-%03d", i/600), name: fmt.Sprintf("workload-%05d-6d5f8c7b9d-%s", i*2/15, suffix(i)), cores: 1,
				gibi: 1, begin: now.Add(-length), end: now,
			}
			all = append(all, p.cAdvisor()[:2]...)
		}
		return all
	}
	const refreshed, past = 30000, 3000
	b.Run(fmt.Sprintf("refresh/pods=%d", refreshed), func(b *testing.B) {
		benchmarkCost(b, refreshed, pods(refreshed, 12*time.Minute), func(src *prometheus.PodSource) (read int, err error) {
			for _, failed := range src.FetchPods(klog.NewContext(b.Context(), logr.Discard()), refreshed, func(*source.PodUsage) { read++ }) {
				if failed != nil {
					err = failed
				}
			}
			return read, err
		}, 2*refreshed)
	})
	const step = 35 * time.Minute // as of a history of a day
	historyOf := func(length time.Duration) func(*prometheus.PodSource) (int, error) {
		return func(src *prometheus.PodSource) (read int, err error) {
			err = src.FetchHistory(klog.NewContext(b.Context(), logr.Discard()), source.Period{End: now, Length: length, Step: step}, 20000,
				func(*source.WorkloadUsage) { read++ })
			return read, err
		}
	}
	history := historyOf(6 * time.Hour)
	b.Run(fmt.Sprintf("history/pods=%d", past), func(b *testing.B) {
		benchmarkCost(b, past, pods(past, 6*time.Hour+10*time.Minute), history, 2*past*2/15)
	})
	b.Run(fmt.Sprintf("look/pods=%d", past), func(b *testing.B) {
		benchmarkCost(b, past, pods(past, 6*time.Hour+10*time.Minute), historyOf(step), 2*past*2/15)
	})
	var records []series
	for _, rule := range promql.RecordingRules() {
		for i := range past * 2 / 15 {
			for at := now.Add(-6 * time.Hour); at.Before(now); at = at.Add(promql.RuleInterval) {
				at := at.Truncate(scrapeInterval)
				records = append(
					records,
					series{
						name: name(rule.Record, "namespace", fmt.Sprintf("team-%03d", i/80), "workload", fmt.Sprintf("workload-%05d", i)), value: 1,
						begin: at, end: at,
					},
				)
			}
		}
	}
	b.Run(fmt.Sprintf("recorded/pods=%d", past), func(b *testing.B) {
		benchmarkCost(b, past, append(records, pods(1, time.Minute)...), history, 2*past*2/15)
	})
}

func suffix(i int) string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	b := make([]byte, 5)
	for j := range b {
		b[j] = letters[i%len(letters)]
		i /= len(letters)
	}
	return string(b)
}

func benchmarkCost(b *testing.B, pods int, all []series, read func(*prometheus.PodSource) (int, error), want int) {
	url, process := startPrometheus(b, all)
	src := newSource(b, url)
	once := func() {
		got := check.Value(read(src))(b)
		if got != want {
			b.Fatalf("%d values, want %d", got, want)
		}
	}
	once()
	before := processorTime(b, process.Pid)
	for b.Loop() {
		once()
	}
	used := processorTime(b, process.Pid) - before
	b.ReportMetric(float64(used.Microseconds())/float64(b.N)/float64(pods), "cpu-µs/pod")
}

func processorTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Skip("processor times are read from /proc: ", err)
	}
	// The name of the program, in parentheses, may hold spaces. The times are the 14th and the 15th field, in ticks of 10 ms.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	var user, system int64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		b.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}

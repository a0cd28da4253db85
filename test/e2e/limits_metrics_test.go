package e2e

import (
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/cluster"
)

func metricNodes() []limited {
	return []limited{
		{pool: "latency", name: "latency-1", load: 0.10, latency: 100 * time.Millisecond},
		{pool: "latency", name: "latency-2", load: 0.10, latency: 2 * time.Second, memory: "20Gi"},
		{pool: "latency", name: "latency-bad", load: 0.10, latency: 8 * time.Second, memory: "2Gi"},
		{pool: "slow", name: "slow-1", load: 0.10, latency: 9 * time.Second},
		{pool: "slow", name: "slow-2", load: 0.10, latency: 7 * time.Second, requests: "6"},
		{pool: "both", name: "both-1", load: 0.99, latency: 9 * time.Second},
		{pool: "both", name: "both-2", load: 0.90, latency: 7 * time.Second, requests: "6"},
		{pool: "weights", name: "weights-fast", load: 0.10, latency: time.Second, memory: "1Mi", requests: "6"},
		{pool: "weights", name: "weights-used", load: 0.10, latency: 4 * time.Second, memory: "8Gi"},
		{pool: "bounds", name: "bounds-fast", load: 0.10, latency: time.Second, memory: "1Mi"},
		{pool: "bounds", name: "bounds-used", load: 0.10, latency: 3 * time.Second, memory: "16Gi", requests: "6"},
		{pool: "no-worst", name: "no-worst-fast", load: 0.10, latency: 3 * time.Second, memory: "1Mi"},
		{pool: "no-worst", name: "no-worst-slow", load: 0.10, latency: 5 * time.Second, memory: "1Mi"},
		{pool: "no-worst", name: "no-worst-unknown", load: 0.10, memory: "16Gi", requests: "6"},
		{pool: "no-best", name: "no-best-fast", load: 0.10, latency: 3 * time.Second, memory: "1Mi", requests: "6"},
		{pool: "no-best", name: "no-best-slow", load: 0.10, latency: 5 * time.Second, memory: "1Mi"},
		{pool: "no-best", name: "no-best-unknown", load: 0.10, memory: "1Mi"},
	}
}

func (e environment) wantMetricsToDecide() {
	for _, part := range []struct {
		name string
		run  func(environment)
	}{
		{"the best value decides", environment.wantByMetrics},
		{"several metrics decide by bounds and weights", environment.wantByScore},
		{"Relax places at once on the best", environment.wantRelaxedByMetrics},
	} {
		e.t.Run(part.name, func(t *testing.T) { part.run(e.in(t)) })
	}
}

func (e environment) wantByMetrics() {
	before := e.attempts("latency")
	for _, name := range numbered("fast", 3) {
		e.wantOn("latency-1", "which has the best latency", cluster.Pod{Name: name, Scheduler: "latency", NodeSelector: pool("latency")})
	}
	pod := cluster.Pod{Name: "by-memory", Scheduler: "memory", NodeSelector: pool("latency")}
	e.wantOn("latency-2", "which uses most memory", pod)
	e.refused(cluster.Pod{Name: "too-slow", Scheduler: "latency", NodeSelector: host("latency-bad")}, tooSlow(1))
	e.wantReason("kubectl describe", e.describe("pod", "too-slow"), tooSlow(1))

	e.latencies(map[string]time.Duration{"latency-1": 2 * time.Second, "latency-2": 100 * time.Millisecond})
	for _, name := range numbered("turned", 2) {
		e.wantOn("latency-2", "which has the best latency now",
			cluster.Pod{Name: name, Scheduler: "latency", NodeSelector: pool("latency")})
	}

	fell := time.Now()
	e.must(e.SetLatency(e.ctx, "latency-bad", 3*time.Second))
	e.bound("too-slow")
	e.t.Logf("Reject: bound %.1f s after the latency fell", time.Since(fell).Seconds())
	// The waiting pod was refused once: no refresh without a change of its nodes retries it.
	e.wantAttempts("latency", before, attempts{unschedulable: 1, scheduled: 3 + 2 + 1})
}

// wantByScore checks decisions of the profile weighted. Latency has weight 3 and scores 1 at 0 s and 0 at 10 s. Used memory has
// weight 1 and scores 1 at 16Gi and 0 at none. No node has a value of the other metrics. If their weight of 100 counted, all scores
// would be close to 0 and requests would decide.
func (e environment) wantByScore() {
	for _, tt := range []struct{ pool, node, why string }{
		// (3 · 0.9 + 0)/4 = 68 % against (3 · 0.6 + 0.5)/4 = 58 %. With equal weights: 45 % against 55 %.
		{"weights", "weights-fast", "latency weighs more"},
		// (3 · 0.7 + 1)/4 = 78 % against (3 · 0.9 + 0)/4 = 68 %. Between the candidates' own values: 25 % against 75 %.
		{"bounds", "bounds-used", "latencies are near to each other within the bounds"},
		// The mean of 3 s and 5 s scores 0.6: (3 · 0.6 + 1)/4 = 70 % against (3 · 0.7 + 0)/4 = 53 %. As the worst: 25 %.
		{"no-worst", "no-worst-unknown", "an unknown latency is not taken for the worst"},
		// (3 · 0.7 + 0)/4 = 53 % against (3 · 0.6 + 0)/4 = 45 %. As the best: 75 %.
		{"no-best", "no-best-fast", "an unknown latency is not taken for the best"},
	} {
		e.wantOn(tt.node, tt.why, cluster.Pod{Name: "by-" + tt.pool, Scheduler: "weighted", NodeSelector: pool(tt.pool)})
	}
}

func (e environment) wantRelaxedByMetrics() {
	pod := cluster.Pod{Name: "relaxed-by-metrics", Scheduler: "latency-relax", NodeSelector: pool("slow")}
	check.Equal(e.t, "node of the best latency", "slow-2", e.relaxed(pod, tooSlow(2)))
}

func (e environment) latencies(latencies map[string]time.Duration) {
	e.t.Helper()
	for node, latency := range latencies {
		e.must(e.SetLatency(e.ctx, node, latency))
	}
	e.must(e.WaitLatency(e.ctx, latencies))
	e.must(e.WaitRefresh(e.ctx))
}

package doctor

import (
	"context"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/internal/webserver"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
)

// Exporter repeats the checks and serves their results as metrics. Use NewExporter.
type Exporter struct {
	run      func(context.Context) (*Report, error)
	clock    clock.WithTicker
	registry metrics.KubeRegistry
	checks   *metrics.GaugeVec
	runs     *metrics.CounterVec
	lastRun  *metrics.Gauge
}

// NewExporter returns an exporter of the reports that run returns.
func NewExporter(run func(context.Context) (*Report, error), c clock.WithTicker) *Exporter {
	e := &Exporter{
		run: run, clock: c, registry: metrics.NewKubeRegistry(),
		checks: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Name: "plimsoll_doctor_check", Help: "Results of doctor's check in the last run, by status: ok, warning, skipped or error.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"id", "status"}),
		runs: metrics.NewCounterVec(&metrics.CounterOpts{
			Name: "plimsoll_doctor_runs_total", Help: "Runs of doctor, by result: Success, or Error without results.",
			StabilityLevel: metrics.ALPHA,
		}, []string{"result"}),
		lastRun: metrics.NewGauge(&metrics.GaugeOpts{
			Name: "plimsoll_doctor_last_run_timestamp_seconds", Help: "End of the last run with results, in Unix time; 0 before it.",
			StabilityLevel: metrics.ALPHA,
		}),
	}
	e.registry.MustRegister(e.checks, e.runs, e.lastRun)
	return e
}

// ServeHTTP serves the metrics.
func (e *Exporter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	metrics.HandlerFor(e.registry, metrics.HandlerOpts{}).ServeHTTP(w, r)
}

// Serve serves /metrics at the listener, which it closes, and runs the checks, until ctx is done. It fails if an option is wrong.
func (e *Exporter) Serve(ctx context.Context, listener net.Listener, interval time.Duration) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", e)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return webserver.Serve(ctx, listener, mux) })
	group.Go(func() error { return e.Run(ctx, interval) })
	return group.Wait()
}

// Run runs the checks now and after each interval, until ctx is done. A run takes at most the interval.
// Run fails if the first run finds an option wrong.
func (e *Exporter) Run(ctx context.Context, interval time.Duration) error {
	ticker := e.clock.NewTicker(interval)
	defer ticker.Stop()
	for first := true; ; first = false {
		limited, cancel := context.WithTimeout(ctx, interval)
		report, err := e.run(limited)
		cancel()
		if first && is[*cluster.OptionError](err) {
			return err
		}
		e.store(ctx, report, err)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// store sets the metrics. Every check has a value for every status, so that an alert ends. A failed run keeps the values.
func (e *Exporter) store(ctx context.Context, report *Report, err error) {
	if err != nil {
		klog.FromContext(ctx).Error(err, "The checks could not be run")
		e.runs.WithLabelValues("Error").Inc()
		return
	}
	type key struct {
		id     string
		status Status
	}
	counts := map[key]float64{}
	for _, c := range report.Checks {
		counts[key{c.ID, c.Status}]++
	}
	for _, id := range IDs() {
		for _, status := range []Status{OK, Warning, Skipped, Error} {
			e.checks.WithLabelValues(id, string(status)).Set(counts[key{id, status}])
		}
	}
	e.lastRun.Set(float64(e.clock.Now().Unix()))
	e.runs.WithLabelValues("Success").Inc()
}

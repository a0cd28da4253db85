package plugins_test

import (
	"testing"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
	"github.com/plimsoll-scheduler/plimsoll/test/plugintest"
)

// read is what the arguments of a plugin make it read, of a reading.Request.
type read struct {
	CPU, Memory time.Duration
	Fraction    float64
	Deviation   bool
	Metrics     []string
	// PeakHistory is the history of the statistics by which peaks are predicted; 0 where none are.
	PeakHistory time.Duration
}

// TestReads expects what each plugin reads, by plugin and arguments. The default window is 5m, that of the statistics of peaks 24h.
func TestReads(t *testing.T) {
	const prometheus = "metricProvider: {type: Prometheus, address: \"http://prometheus:9090\"}\n"
	const five, one = 5 * time.Minute, time.Minute
	rows := map[string]map[string]read{
		"LoadThreshold": {
			"":                                    {CPU: five, Memory: five},
			"statistic: Mean\nwindows: {cpu: 1m}": {CPU: one, Memory: five},
			"statistic: MeanPlusStdDev":           {CPU: five, Memory: five, Deviation: true},
			prometheus + "statistic: P95\nwindows: {memory: 1m}":          {CPU: five, Memory: one, Fraction: 0.95},
			prometheus + "statistic: Max\nwindows: {cpu: 1m, memory: 1h}": {CPU: one, Memory: time.Hour, Fraction: 1},
			"statistic: PredictedPeak":                                    {CPU: five, Memory: five, PeakHistory: 24 * time.Hour},
			"statistic: PredictedPeak\npredictedPeak: {history: 2h}":      {CPU: five, Memory: five, PeakHistory: 2 * time.Hour},
			"predictedPeak: {history: 2h}":                                {CPU: five, Memory: five}, // no other statistic predicts peaks
		},
		"LoadVariationRiskBalancing": {"": {CPU: five, Memory: five, Deviation: true}, "window: 1m": {CPU: one, Memory: one, Deviation: true}},
		"LowRiskOverCommitment":      {"": {CPU: five, Memory: five, Deviation: true}, "window: 1m": {CPU: one, Memory: one, Deviation: true}},
		"NodeMetrics":                {"": {Metrics: []string{"m0", "m1", "m2"}}},
		"Peaks":                      {"": {CPU: five, Memory: five}, "window: 1m\nnodePowerModels: [{k0: 470, k1: -91, k2: -0.07}]": {CPU: one, Memory: one}},
		"PredictedPeak":              {"": {CPU: five, Memory: five, PeakHistory: 24 * time.Hour}, "window: 1m\nhistory: 2h": {CPU: one, Memory: one, PeakHistory: 2 * time.Hour}},
		"TargetLoadPacking":          {"": {CPU: five, Memory: five}, "window: 1m": {CPU: one, Memory: one}},
	}
	for _, d := range plugins.All() {
		if (len(rows[d.Name]) > 0) != (d.Reads != nil) {
			t.Errorf("%s: want a row if it reads load", d.Name)
		}
		for args, want := range rows[d.Name] {
			t.Run(d.Name+"/"+args, func(t *testing.T) {
				if args == "" {
					args = least(kinds()[d.Name])
				}
				r := d.Reads(plugintest.Args(t, kinds()[d.Name], args))
				got := read{
					CPU: r.Windows[load.CPU], Memory: r.Windows[load.Memory], Fraction: r.Fraction, Deviation: r.UsesDeviation, Metrics: r.Metrics,
				}
				if r.Peak != nil {
					got.PeakHistory = r.Peak.History.Duration
				}
				check.Equal(t, "result", want, got)
			})
		}
	}
}

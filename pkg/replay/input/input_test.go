package input

import "testing"

func TestDemand_Startup(t *testing.T) {
	in := &Input{Workloads: []Workload{{Startup: Startup{CPUMillis: 400, Seconds: 90}}}}
	p := Pod{Trace: []float32{1}, CPUMillis: 100}
	for _, tc := range []struct {
		name  string
		limit float64
		usage float32
		tick  int
		want  float32
	}{
		{"the first 90 s from tick 20 on", 0, 100, 20, 400},
		{"the last of its three ticks", 0, 100, 22, 400},
		{"afterwards", 0, 100, 23, 100},
		{"more usage than at the start", 0, 500, 20, 500},
		{"a limit", 250, 100, 20, 250},
	} {
		in.Workloads[0].Limits.CPUMillis, p.CPUMillis = tc.limit, tc.usage
		d := in.DemandOf(&p, nil, 20)
		if got := d.At(tc.tick); got != tc.want {
			t.Errorf("%s: %v in tick %d, want %v", tc.name, got, tc.tick, tc.want)
		}
	}
}

package promql

import "testing"

// The recorded rules of kube-prometheus follow from node_exporter's counters. A custom query may follow from any.
func TestPlanner_Counted(t *testing.T) {
	for _, tt := range []struct {
		dialect Dialect
		custom  string
		want    string
	}{
		{NodeExporter, "", "node_cpu_seconds_total"},
		{KubePrometheus, "", "node_cpu_seconds_total"},
		{Kubelet, "", "node_cpu_usage_seconds_total"},
		{KubePrometheus, "mine", ""},
		{"", "", ""},
	} {
		p := &Planner{}
		p.Custom[0] = tt.custom // of cpu
		if got := p.CPUCounters(tt.dialect); got != tt.want {
			t.Errorf("%s with custom query %q: %q, want %q", tt.dialect, tt.custom, got, tt.want)
		}
	}
}

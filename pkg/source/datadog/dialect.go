package datadog

import (
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// The dialects: the metrics that hold a node's load.
const (
	// Auto takes the first of Utilization and Agent with a value for a node. Without a value it tries the other.
	Auto = "Auto"
	// Utilization reads cpu.utilization and memory.utilization, which are in percent.
	Utilization = "Utilization"
	// Agent reads system.cpu.idle, which is in percent, and system.mem.pct_usable, a fraction, of Datadog's own agent.
	Agent = "DatadogAgent"
)

// query is a metric query and the meaning of its values.
type query struct {
	text string
	// scale and offset turn a value into utilization, a fraction.
	scale, offset float64
}

func (q *query) utilization(value float64) float64 { return value*q.scale + q.offset }

// queries returns each resource's custom query, or else the dialect's. step is the interval of points.
func (s *Source) queries(dialect string, step time.Duration) [load.ResourceCount]query {
	queries := [load.ResourceCount]query{
		load.CPU:    {text: "max:cpu.utilization{$filter} by {host}.rollup(max, $interval)", scale: 0.01},
		load.Memory: {text: "max:memory.utilization{$filter} by {host}.rollup(max, $interval)", scale: 0.01},
	}
	if dialect == Agent {
		queries = [load.ResourceCount]query{
			load.CPU:    {text: "avg:system.cpu.idle{$filter} by {host}.rollup(avg, $interval)", scale: -0.01, offset: 1},
			load.Memory: {text: "avg:system.mem.pct_usable{$filter} by {host}.rollup(avg, $interval)", scale: -1, offset: 1},
		}
	}
	variables := strings.NewReplacer("$filter", s.filter, "$interval", strconv.Itoa(int(step.Seconds())))
	for r, custom := range s.custom {
		if custom != "" {
			queries[r] = query{text: custom, scale: 0.01}
		}
		queries[r].text = variables.Replace(queries[r].text)
	}
	return queries
}

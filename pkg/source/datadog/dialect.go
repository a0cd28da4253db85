package datadog

import (
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// Dialect names the metrics that hold a node's load.
type Dialect string

const (
	// Auto takes the first of Utilization and Agent that has a value for a node, and tries the other whenever that has none.
	Auto Dialect = "Auto"
	// Utilization reads cpu.utilization and memory.utilization, which are in percent.
	Utilization Dialect = "Utilization"
	// Agent reads system.cpu.idle, which is in percent, and system.mem.pct_usable, a fraction, of Datadog's own agent.
	Agent Dialect = "DatadogAgent"
)

// query is a metric query and what its values mean.
type query struct {
	text string
	// scale and offset give the utilization, a fraction, from a value.
	scale, offset float64
}

func (q *query) utilization(value float64) float64 { return value*q.scale + q.offset }

// queries returns the queries of a dialect, and the operator's own, for points of the given distance, by resource.
func (s *Source) queries(d Dialect, step time.Duration) [load.ResourceCount]query {
	queries := [load.ResourceCount]query{
		load.CPU:    {text: "max:cpu.utilization{$filter} by {host}.rollup(max, $interval)", scale: 0.01},
		load.Memory: {text: "max:memory.utilization{$filter} by {host}.rollup(max, $interval)", scale: 0.01},
	}
	if d == Agent {
		queries = [load.ResourceCount]query{
			load.CPU:    {text: "avg:system.cpu.idle{$filter} by {host}.rollup(avg, $interval)", scale: -0.01, offset: 1},
			load.Memory: {text: "avg:system.mem.pct_usable{$filter} by {host}.rollup(avg, $interval)", scale: -1, offset: 1},
		}
	}
	variables := strings.NewReplacer("$filter", s.filter, "$interval", strconv.Itoa(int(step.Seconds())))
	for r, own := range s.own {
		if own != "" {
			queries[r] = query{text: own, scale: 0.01}
		}
		queries[r].text = variables.Replace(queries[r].text)
	}
	return queries
}

package load

import (
	"math"
	"time"
)

// MetricValue is the latest value of one node metric of one node. A node metric is a configured PromQL expression with one value
// per node.
type MetricValue struct {
	Value float64
	// End is the time of the value, never later than the time it was read.
	End time.Time
}

// MetricTable holds the values of one node metric, by name of the Node object.
type MetricTable map[string]MetricValue

// MetricColumn holds the values of one node metric by row of an Index. It is immutable.
type MetricColumn struct {
	// cells holds the values of all metrics by row, from this metric's first cell on. stride is the number of metrics.
	cells  []metricCell
	stride int
	// newest is the latest end, in nanoseconds since 1970.
	newest int64
	// lowest and highest are NaN if there is no value.
	lowest, highest float64
}

// metricCell is a MetricValue whose End is in nanoseconds since 1970; a row without a value has the zero metricCell.
type metricCell struct {
	value float64
	end   int64
}

// newColumns returns a column for each metric. A node's values are adjacent in memory, because they are read together.
func newColumns(index *Index, metrics map[string]MetricTable) map[string]*MetricColumn {
	columns := make(map[string]*MetricColumn, len(metrics))
	cells := make([]metricCell, index.Len()*len(metrics))
	for expression, table := range metrics {
		c := &MetricColumn{stride: len(metrics), lowest: math.NaN(), highest: math.NaN()}
		if len(cells) > 0 {
			c.cells = cells[len(columns):]
		}
		for node, v := range table {
			row, ok := index.Row(node)
			if !ok {
				continue
			}
			end := v.End.UnixNano()
			c.cells[row*c.stride] = metricCell{value: v.Value, end: end}
			c.newest = max(c.newest, end)
			if math.IsNaN(c.lowest) {
				c.lowest, c.highest = v.Value, v.Value
			}
			c.lowest, c.highest = min(c.lowest, v.Value), max(c.highest, v.Value)
		}
		columns[expression] = c
	}
	return columns
}

// Row returns the value in a row and its end, in nanoseconds since 1970. Without a value, end is 0.
func (c *MetricColumn) Row(row int) (value float64, end int64) {
	if i := row * c.stride; i < len(c.cells) {
		return c.cells[i].value, c.cells[i].end
	}
	return 0, 0
}

// Newest is the latest end of any value, in nanoseconds since 1970; 0 if there is no value.
func (c *MetricColumn) Newest() int64 { return c.newest }

// Range returns the lowest and the highest value, and whether there are values.
func (c *MetricColumn) Range() (lowest, highest float64, ok bool) {
	return c.lowest, c.highest, c.newest != 0
}

// Package manifests has the chart's values for programs.
package manifests

import _ "embed"

// ChartValues is the file values.yaml of the chart.
//
//go:embed chart/values.yaml
var ChartValues string

// Package nodemetrics scores nodes, and rules nodes out, by any metrics that Prometheus has a value per node of.
package nodemetrics

// Package nodemetrics scores nodes, and rules nodes out, by any metrics that Prometheus has one value per node for.
package nodemetrics

// Package minor adapts to what differs between the Kubernetes minor versions that Plimsoll is built with: what plugins
// use is here, what pod usage, simulation and tests use in the packages below. A build for an older minor has the
// tag kubernetes_1_35 or the like; a build for the newest has none.
package minor

// MinScore and MaxScore are the bounds of a plugin's score of a node, in all versions. Their names differ: MinNodeScore
// and MaxNodeScore are deprecated since Kubernetes 1.36, and 1.34 has them in another package.
const (
	MinScore int64 = 0
	MaxScore int64 = 100
)

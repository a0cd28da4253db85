// Package minor adapts to the differences between Kubernetes' minor versions. This package has the differences for plugins; the
// packages below have those for pod usage, simulation and tests. A build for an older minor has the tag kubernetes_1_35 or the
// like; a build for the newest has none.
package minor

// MinScore and MaxScore are the bounds of a plugin's score of a node, in all versions. Their names differ: MinNodeScore
// and MaxNodeScore are deprecated since Kubernetes 1.36, and 1.34 has them in another package.
const (
	MinScore int64 = 0
	MaxScore int64 = 100
)

// Package minor adapts to the differences between Kubernetes' minor versions. This package has the differences for plugins; the
// packages below have those for pod usage, simulation and tests. A build for an older minor has the tag kubernetes_1_35 or the
// like; a build for the newest has none.
package minor

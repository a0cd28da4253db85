// Package minor adapts to what differs between the Kubernetes minor versions that Plimsoll is built with: what plugins use stands
// here, what pod usage, simulation and tests use in the packages below. A build for an older minor has the tag kubernetes_1_35 or the
// like; a build for the newest has none.
package minor

// MinScore and MaxScore are the bounds of a score. They have been these from the first version on, but kube-scheduler/framework
// names them only from Kubernetes 1.36 on.
const (
	MinScore int64 = 0
	MaxScore int64 = 100
)

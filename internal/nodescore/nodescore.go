// Package nodescore has the bounds of a plugin's score of a node, in all versions of Kubernetes. Their names there differ:
// MinNodeScore and MaxNodeScore are deprecated since Kubernetes 1.36, and 1.34 has them in another package.
package nodescore

// Min and Max bound a plugin's score of a node, before its weight.
const (
	Min int64 = 0
	Max int64 = 100
)

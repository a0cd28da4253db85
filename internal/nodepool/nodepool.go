// Package nodepool names the pools of nodes.
package nodepool

// known are the labels by which clouds and autoscalers name the pool of a node.
var known = []string{
	"karpenter.sh/nodepool",
	"eks.amazonaws.com/nodegroup",
	"alpha.eksctl.io/nodegroup-name",
	"cloud.google.com/gke-nodepool",
	"kubernetes.azure.com/agentpool",
	"doks.digitalocean.com/node-pool",
	"k8s.scaleway.com/pool-name",
}

// Of returns the node's pool: the value of the label or, if it is empty, of the first known label. It is empty without one.
func Of(labels map[string]string, label string) string {
	if label != "" {
		return labels[label]
	}
	for _, label := range known {
		if pool := labels[label]; pool != "" {
			return pool
		}
	}
	return ""
}

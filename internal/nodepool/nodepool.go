// Package nodepool names the pool of a node.
package nodepool

// wellKnownLabels are the labels by which clouds and autoscalers name the pool of a node.
var wellKnownLabels = []string{
	"karpenter.sh/nodepool",
	"eks.amazonaws.com/nodegroup",
	"alpha.eksctl.io/nodegroup-name",
	"cloud.google.com/gke-nodepool",
	"kubernetes.azure.com/agentpool",
	"doks.digitalocean.com/node-pool",
	"k8s.scaleway.com/pool-name",
}

// Of returns the value of the label or, if label is empty, of the first well-known label. It is empty for a node without a pool.
func Of(labels map[string]string, label string) string {
	if label != "" {
		return labels[label]
	}
	for _, label := range wellKnownLabels {
		if pool := labels[label]; pool != "" {
			return pool
		}
	}
	return ""
}

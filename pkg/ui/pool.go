package ui

// poolLabels are the labels by which clouds and autoscalers name the pool of a node.
var poolLabels = []string{
	"karpenter.sh/nodepool",
	"eks.amazonaws.com/nodegroup",
	"alpha.eksctl.io/nodegroup-name",
	"cloud.google.com/gke-nodepool",
	"kubernetes.azure.com/agentpool",
	"doks.digitalocean.com/node-pool",
	"k8s.scaleway.com/pool-name",
}

// poolOf returns the value of the first well-known label; empty for a node without a pool.
func poolOf(labels map[string]string) string {
	for _, label := range poolLabels {
		if pool := labels[label]; pool != "" {
			return pool
		}
	}
	return ""
}

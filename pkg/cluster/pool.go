package cluster

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

// PoolOf returns the value of the label or, if label is empty, of the first well-known label. The value is empty for a node
// without a pool.
func PoolOf(labels map[string]string, label string) string {
	if label != "" {
		return labels[label]
	}
	for _, label := range poolLabels {
		if pool := labels[label]; pool != "" {
			return pool
		}
	}
	return ""
}

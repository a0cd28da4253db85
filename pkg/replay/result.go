package replay

import "time"

// Report is what policies made of the same pods.
type Report struct {
	// Title names what was replayed, such as "base, 2011-03-03" or "cluster production, last 24 h".
	Title string `json:"title"`
	// Nodes and Pods are their numbers in the first run; CPUCores the capacity of all nodes.
	Nodes    int     `json:"nodes"`
	Pods     int     `json:"pods"`
	CPUCores float64 `json:"cpuCores"`
	// Counted is the span that figures are of: what comes before it fills the cluster.
	Counted time.Duration `json:"countedNanoseconds"`
	// HotAbove and SevereAbove are utilizations, as fractions of a node's CPU capacity.
	HotAbove    float64 `json:"hotAbove"`
	SevereAbove float64 `json:"severeAbove"`
	// Partial says that the replay was interrupted: some runs are missing.
	Partial  bool           `json:"partial,omitempty"`
	Policies []PolicyReport `json:"policies"`
}

// PolicyReport is what one policy made of the pods, run by run. The runs of all policies are of the same pods, in the same order; of a
// partial report, a policy may have none.
type PolicyReport struct {
	Name string `json:"name"`
	Runs []Run  `json:"runs"`
}

// Run is what one policy made of the pods of one seed and day. All utilizations are of CPU demand over capacity: demand may exceed
// 1.
type Run struct {
	// Name says which pods, such as "2011-03-03, seed 1".
	Name string `json:"name"`
	Seed uint64 `json:"seed"`
	// HotMinutes and SevereMinutes are node-minutes above HotAbove and SevereAbove.
	HotMinutes    float64 `json:"hotMinutes"`
	SevereMinutes float64 `json:"severeMinutes"`
	// UnservedCoreHours is demand beyond capacity.
	UnservedCoreHours float64 `json:"unservedCoreHours"`
	// P99Utilization is the 99th percentile over all node-minutes; Deviation the standard deviation between nodes, averaged over time.
	P99Utilization float64 `json:"p99Utilization"`
	Deviation      float64 `json:"deviation"`
	// NodesInUse is the mean number of nodes that run a pod.
	NodesInUse float64 `json:"nodesInUse"`
	// Pending is the number of pods that were never placed, PendingMinutes how long pods waited in all.
	Pending        int     `json:"pending"`
	PendingMinutes float64 `json:"pendingMinutes"`
	Evictions      int     `json:"evictions"`
	Decisions      int     `json:"decisions"`
	// DecisionSeconds is how long all decisions took by the clock, which is longer where the machine is busy.
	DecisionSeconds float64 `json:"decisionSeconds"`
	Hot             HotBy   `json:"hotBy"`
	Charts          *Charts `json:"charts,omitempty"`
}

// HotBy says where hot node-minutes come from.
type HotBy struct {
	// Usage on hot nodes by the age of the pod that uses it, as fractions of 1: below each of AgeBounds, and the rest.
	UsageByAge []float64 `json:"usageByAge"`
	// LargestPodShare is the mean share of the largest pod in the usage of a hot node.
	LargestPodShare float64 `json:"largestPodShare"`
	// LargestUnknown is the share of hot node-minutes whose largest pod was of a workload without history when it was placed;
	// LargestSilent that whose largest pod requests no CPU.
	LargestUnknown float64 `json:"largestUnknown"`
	LargestSilent  float64 `json:"largestSilent"`
}

// AgeBounds are the upper bounds of HotBy.UsageByAge but the last.
func AgeBounds() []time.Duration {
	return []time.Duration{5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 8 * time.Hour}
}

// Charts are what a report draws of one run.
type Charts struct {
	// Step is the time between two columns, Start the time of day of the first.
	Step  time.Duration `json:"stepNanoseconds"`
	Start time.Duration `json:"startNanoseconds"`
	// HotNodes is the mean number of hot nodes in each step.
	HotNodes []float64 `json:"hotNodes"`
	// Utilization is by node, then by step: the mean demand in percent of capacity, at most 255. encoding/json writes each row in
	// base64. NodeNames are the names in the same order.
	Utilization [][]byte `json:"utilization"`
	NodeNames   []string `json:"nodeNames"`
	// Distribution is the share of node-minutes by utilization in whole percent; the last holds all above.
	Distribution []float64 `json:"distribution"`
}

// Package report holds a replay's figures, and compares policies by them.
package report

// SevereAbove is the CPU utilization above which a node is severely hot, as a fraction of capacity. Above load.Hot it is hot.
const SevereAbove = 0.95

// Names of policies for comparison.
const (
	Stock       = "stock"
	Recommended = "plimsoll"
	Clairvoyant = "clairvoyant"
	// Rebalanced ends the name of a policy that moves pods.
	Rebalanced = "+rebalance"
)

// Result is the JSON of a replay.
type Result struct {
	// Reports has one report.
	Reports []*Report `json:"reports"`
}

func (*Result) JSONKind() string { return "Replay" }

// Report holds the figures of several policies on the same pods.
type Report struct {
	// Title names the pods, such as "base" or "cluster, 24h0m0s until 2026-01-02 12:00:00".
	Title string `json:"title"`
	// Nodes, Pods and CPUCores are those of the first run.
	Nodes    int     `json:"nodes"`
	Pods     int     `json:"pods"`
	CPUCores float64 `json:"cpuCores"`
	// CountedSeconds is the time that figures cover: the cluster fills before.
	CountedSeconds float64 `json:"countedSeconds"`
	// Autocorrelation is nil if no pod lives long enough for it.
	Autocorrelation *Autocorrelation `json:"autocorrelation,omitempty"`
	// HotAbove and SevereAbove are utilizations, as fractions of a node's CPU capacity.
	HotAbove    float64        `json:"hotAboveRatio"`
	SevereAbove float64        `json:"severeAboveRatio"`
	Policies    []PolicyReport `json:"policies"`
}

// Autocorrelation is the correlation of the pods' CPU usages with those five minutes later, from -1 to 1.
type Autocorrelation struct {
	FiveMinutes float64 `json:"fiveMinutes"`
}

// PolicyReport holds one policy's runs. Run i of all policies has the same pods.
type PolicyReport struct {
	Name string `json:"name"`
	Runs []Run  `json:"runs"`
}

// Run holds one policy's figures on the pods of one seed and day. Utilizations are CPU demand over capacity, and may exceed 1.
type Run struct {
	// Name identifies the pods, such as "2011-03-03, seed 1".
	Name string `json:"name"`
	Seed uint64 `json:"seed"`
	// ReadsLoad reports whether a plugin of the policy reads load. The rebalancer refuses other profiles.
	ReadsLoad bool `json:"-"`
	// HotMinutes and SevereMinutes are node-minutes above load.Hot and SevereAbove.
	HotMinutes    float64 `json:"hotMinutes"`
	SevereMinutes float64 `json:"severeMinutes"`
	// HotByDay are the HotMinutes of each counted day.
	HotByDay []float64 `json:"hotMinutesByDay"`
	// UnservedCoreHours is demand beyond capacity.
	UnservedCoreHours float64 `json:"unservedCoreHours"`
	// P99Utilization is the 99th percentile over all node-minutes.
	P99Utilization float64 `json:"p99UtilizationRatio"`
	// EnergyHours is the energy of all nodes, in watt-hours where the power models are in watts. It is 0 unless a policy has some.
	EnergyHours float64 `json:"energyHours,omitempty"`
	// Pending is the number of pods without a node at the end.
	Pending int `json:"pending"`
	// Moves are evicted pods. Landed are those of the rebalancer that run on another node, which was not above its line with them.
	// Returned are those placed on a node that the pod was moved off in the hour before.
	Moves    int `json:"moves"`
	Landed   int `json:"landed"`
	Returned int `json:"returned"`
}

package podusage

import "github.com/plimsoll-scheduler/plimsoll/pkg/load"

// MaxLimitRatio caps a pod's limit at this multiple of its request. It is the default of maxLimitRequestRatio.
const MaxLimitRatio = 10

// CapLimit returns how much of a limit counts beside the request: up to maxRatio times the request. The API server accepts any
// limit above the request, so it says little of what a pod may use. Amounts are in milliCPU or bytes; limit may be +Inf.
func CapLimit(limit, request, maxRatio float64) float64 { return min(limit, maxRatio*request) }

// Claim is the part of a node's resource that one pod claims, in milliCPU or bytes. Limit is at least Request.
type Claim struct{ Request, Limit float64 }

// ClaimOf returns a claim on a node with the given allocatable. A single pod claims at most all of the node, even by a request
// that the scheduler would refuse. limit may be +Inf.
func ClaimOf(request, limit, allocatable float64) Claim {
	request = min(request, allocatable)
	return Claim{Request: request, Limit: max(request, min(CapLimit(limit, request, MaxLimitRatio), allocatable))}
}

// MaxForeignDefault bounds, in milliCPU or bytes, what pods without requests and limits count to pods of other namespaces. All of
// one namespace on a node share it. One of them counts as much in the stock scheduler. They cost their author nothing, so no number
// of them must repel others.
func MaxForeignDefault(r load.Resource) float64 {
	return Amounts{load.CPU: 100, load.Memory: 200 << 20}[r]
}

// Package requests recommends the requests and limits of workloads from what their containers used.
package requests

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	quantities "github.com/plimsoll-scheduler/plimsoll/internal/quantity"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// Rule is how a recommendation is made of usages, each of five minutes:
//
//   - cpu request: the percentile of each pod's usages, and of these the same percentile over the pods. Up to 19 pods that is
//     the highest of the pods, at 95 %. A limit below the request is raised to it.
//   - memory request and limit: the highest usage of any pod, and a margin
type Rule struct {
	// CPUPercentile is both percentiles of cpu, in (0, 100].
	CPUPercentile float64 `json:"cpuPercentile"`
	// MemoryMarginPercent is added to the highest memory usage.
	MemoryMarginPercent float64 `json:"memoryMarginPercent"`
	// MinCPU and MinMemory are the least requests.
	MinCPU    resource.Quantity `json:"minCPU"`
	MinMemory resource.Quantity `json:"minMemory"`
	// MinHistory is the time that a container must have been seen for.
	MinHistory metav1.Duration `json:"minHistory"`
}

// DefaultRule returns the rule's defaults.
func DefaultRule() Rule {
	return Rule{
		CPUPercentile: 95, MemoryMarginPercent: 15, MinCPU: resource.MustParse("10m"), MinMemory: resource.MustParse("32Mi"),
		MinHistory: metav1.Duration{Duration: 6 * time.Hour},
	}
}

// Validate returns an error that names the field, what it is and what is allowed.
func (r *Rule) Validate() error {
	var errs []error
	if !(r.CPUPercentile > 0 && r.CPUPercentile <= 100) {
		errs = append(errs, fmt.Errorf("--cpu-percentile: %v; write more than 0, and at most 100", r.CPUPercentile))
	}
	if !(r.MemoryMarginPercent >= 0 && r.MemoryMarginPercent <= 1000) {
		errs = append(errs, fmt.Errorf("--memory-margin: %v; write a percentage from 0 to 1000", r.MemoryMarginPercent))
	}
	if r.MinHistory.Duration < 0 {
		errs = append(errs, fmt.Errorf("--min-history: %v; write 0 or more", r.MinHistory.Duration))
	}
	return errors.Join(errs...)
}

// String states the rule.
func (r *Rule) String() string {
	return fmt.Sprintf("cpu request: %g %% of the pods stay at or below it for at least %[1]g %% of the time. It is at least %s. "+
		"No cpu limit is added, and one below the request is raised to it. "+
		"Memory request and limit: the highest usage and %g %%, at least %s.",
		r.CPUPercentile, r.MinCPU.String(), r.MemoryMarginPercent, r.MinMemory.String())
}

func (r *Rule) seenEnough(of *Resource) bool {
	return of.Usage != nil && of.SeenSeconds >= r.MinHistory.Seconds()
}

// usages are in milliCPU or bytes. The methods sort them.
type usages []float32

// Usage is what containers used: the mean, the 95th percentile and the highest of their usages.
type Usage struct {
	Mean resource.Quantity `json:"mean"`
	P95  resource.Quantity `json:"p95"`
	Max  resource.Quantity `json:"max"`
}

// percentile is the smallest usage that at least a share of them, in percent, do not exceed.
func (u usages) percentile(percent float64) float64 {
	slices.Sort(u)
	// The product first: 55 / 100 * 100 is a little more than 55.
	return float64(u[max(int(math.Ceil(percent*float64(len(u))/100))-1, 0)])
}

func (u usages) highest() float64 { return float64(slices.Max(u)) }

func (u usages) mean() float64 {
	// Sums of float32s are exact, so no order of the usages lifts a mean over what quantity rounds up to.
	sum := 0.0
	for _, v := range u {
		sum += float64(v)
	}
	return sum / float64(len(u))
}

func (u usages) usage(r load.Resource) Usage {
	const shownPercentile = 95
	return Usage{Mean: quantity(r, u.mean()), P95: quantity(r, u.percentile(shownPercentile)), Max: quantity(r, u.highest())}
}

// cpu returns the recommended request.
func (r *Rule) cpu(byPod map[string]usages) resource.Quantity {
	var pods usages
	for _, u := range byPod {
		pods = append(pods, float32(u.percentile(r.CPUPercentile)))
	}
	return larger(quantity(load.CPU, pods.percentile(r.CPUPercentile)), r.MinCPU)
}

// memory returns the recommended request and limit.
func (r *Rule) memory(byPod map[string]usages) resource.Quantity {
	highest := 0.0
	for _, u := range byPod {
		highest = max(highest, u.highest())
	}
	return larger(quantity(load.Memory, highest*(1+r.MemoryMarginPercent/100)), r.MinMemory)
}

func larger(a, b resource.Quantity) resource.Quantity {
	if a.Cmp(b) < 0 {
		return b
	}
	return a
}

// quantity rounds up to a milliCPU or a mebibyte.
func quantity(r load.Resource, amount float64) resource.Quantity {
	if r == load.CPU {
		return *resource.NewMilliQuantity(quantities.Int(math.Ceil(amount)), resource.DecimalSI)
	}
	const mebibyte = 1 << 20
	return *resource.NewQuantity(quantities.Int(math.Ceil(amount/mebibyte)*mebibyte), resource.BinarySI)
}

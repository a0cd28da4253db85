package podusage

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
)

// Capacity is what all processes of a node can use, in milliCPU and bytes. Memory that is set aside for huge pages is not part of
// it.
type Capacity struct {
	Amounts   Amounts
	hugePages float64
}

// CapacityOf returns the capacity of the Node. A resource that the Node does not report has an amount of 0.
func CapacityOf(node *corev1.Node) Capacity {
	all := node.Status.Capacity
	c := Capacity{Amounts: Amounts{
		load.CPU: 1000 * max(all.Cpu().AsApproximateFloat64(), 0), load.Memory: max(all.Memory().AsApproximateFloat64(), 0),
	}}
	for name, pages := range all {
		if strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			c.hugePages += max(pages.AsApproximateFloat64(), 0)
		}
	}
	c.hugePages = min(c.hugePages, c.Amounts[load.Memory])
	c.Amounts[load.Memory] -= c.hugePages
	return c
}

// Of returns a mean that counts huge pages as used and as capacity, as one minus MemAvailable over MemTotal does, as a fraction of
// the capacity.
func (c *Capacity) Of(r load.Resource, mean float64) float64 {
	if r != load.Memory || c.hugePages == 0 {
		return mean
	}
	return max(c.Spread(r, mean)-c.hugePages/c.Amounts[r], 0)
}

// Spread is Of for a deviation.
func (c *Capacity) Spread(r load.Resource, deviation float64) float64 {
	if r != load.Memory || c.hugePages == 0 {
		return deviation
	}
	return deviation * (c.Amounts[r] + c.hugePages) / c.Amounts[r]
}

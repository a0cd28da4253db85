package podusage

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/test/check"
)

func TestCapacity_HugePages(t *testing.T) {
	const gi = 1 << 30
	node := &corev1.Node{Status: corev1.NodeStatus{Capacity: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi"),
		"hugepages-1Gi": resource.MustParse("32Gi"), "hugepages-2Mi": resource.MustParse("16Gi"),
	}}}
	c := CapacityOf(node)
	for _, tt := range []struct {
		name      string
		got, want float64
	}{
		{"milliCPU", c.Amounts[load.CPU], 16000},
		{"bytes: 64 - 32 - 16 Gi", c.Amounts[load.Memory], 16 * gi},
		// 6 Gi are available of 64 Gi: (64 - 48 - 6) / (64 - 48) = 10 / 16
		{"memory", c.Of(load.Memory, 1-6.0/64), 0.625},
		{"cpu", c.Of(load.CPU, 0.4), 0.4},
		// 62 Gi are available, although 48 Gi are set aside
		{"memory below the huge pages", c.Of(load.Memory, 1-62.0/64), 0},
		// 3 Gi of 64 Gi are 3 Gi of 16 Gi
		{"deviation of memory", c.Spread(load.Memory, 3.0/64), 3.0 / 16},
	} {
		check.Equal(t, tt.name, tt.want, tt.got, cmpopts.EquateApprox(0, 1e-9))
	}
}

func TestCapacity_NothingReported(t *testing.T) {
	c := CapacityOf(&corev1.Node{})
	if c.Amounts != (Amounts{}) || c.Of(load.Memory, 0.5) != 0.5 || c.Spread(load.Memory, 0.1) != 0.1 {
		t.Errorf("%+v, %v, %v: want zeros, and unchanged statistics", c, c.Of(load.Memory, 0.5), c.Spread(load.Memory, 0.1))
	}
	// All memory is huge pages: nothing is left to divide by.
	c = CapacityOf(&corev1.Node{Status: corev1.NodeStatus{Capacity: corev1.ResourceList{
		corev1.ResourceMemory: resource.MustParse("4Gi"), "hugepages-1Gi": resource.MustParse("8Gi"),
	}}})
	check.Equal(t, "bytes", 0, c.Amounts[load.Memory])
}

package command

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
)

// Permissions returns what the rebalancer needs in the mode, except to read load. Its state and its Lease have one name.
// The other Lease is the scheduler's.
func Permissions(c *cluster.Connection, mode api.Mode, state, lease types.NamespacedName) ([]cluster.Permission, error) {
	all, err := c.Informed()
	if err != nil {
		return nil, err
	}
	const coordination, elects = "coordination.k8s.io", "elects a leader"
	for _, row := range []struct {
		needed                          bool
		group, resource, verbs, purpose string
		in                              types.NamespacedName
	}{
		{mode == api.Evict, "", "pods", "get", "reads a pod once more before it evicts it", types.NamespacedName{}},
		{mode == api.Evict, "", "pods/eviction", "create", "evicts pods (mode Evict)", types.NamespacedName{}},
		{true, "events.k8s.io", "events", "create patch update", "reports moves as events", types.NamespacedName{}},
		{true, coordination, "leases", "get", "finds out whether the scheduler runs", lease},
		{true, "", "configmaps", "get update", "keeps its state", state},
		{true, coordination, "leases", "create", elects, types.NamespacedName{Namespace: state.Namespace}},
		{true, coordination, "leases", "get update", elects, state},
	} {
		if row.needed {
			all = append(all, cluster.Permission{
				Group: row.group, Resource: row.resource, Verbs: strings.Fields(row.verbs),
				Namespace: row.in.Namespace, Name: row.in.Name, Purpose: row.purpose,
			})
		}
	}
	return all, nil
}

package doctor

import (
	"context"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/provider"
)

// permissionFacts are the permissions of an account. needed counts verbs.
type permissionFacts struct {
	user    string
	needed  int
	missing []cluster.Permission
	err     error
}

// aggregated is the API group of metrics-server.
const aggregated = "metrics.k8s.io"

// neededPermissions returns the permissions that the scheduler needs with its configuration.
func (f *Facts) neededPermissions() (list []cluster.Permission) {
	const (
		informer, write         = "get list watch", "create patch update"
		devices, leases, system = "resource.k8s.io", "coordination.k8s.io", "kube-system"
		groups, together        = "scheduling.k8s.io", "places pods of a group together"
		events, spreads         = "reports placements as events", "spreads pods (PodTopologySpread)"
		authorizes, elects      = "authorizes who reads its metrics", "elects a leader"
		authentication          = "extension-apiserver-authentication"
	)
	v, err := version.ParseGeneric(f.server.GitVersion)
	since := func(minor uint) bool { return err == nil && v.AtLeast(version.MajorMinor(1, minor)) }
	gate := func(name string) bool { return f.Workload() != nil && configlint.Enables(f.Workload().Flags(), name) }
	lease := f.Election()
	for _, row := range []struct {
		needed                                            bool
		group, resources, verbs, purpose, namespace, name string
	}{
		{true, "", "events", write, events, "", ""},
		{true, "events.k8s.io", "events", write, events, "", ""},
		{true, "", "nodes", informer, "places pods on nodes", "", ""},
		{true, "", "pods", informer + " delete", "places pods, and preempts them", "", ""},
		{true, "", "pods/binding", "create", "binds pods to nodes", "", ""},
		{true, "", "pods/status", "patch update", "reports why a pod waits", "", ""},
		{true, "", "services replicationcontrollers", informer, spreads, "", ""},
		{true, "apps", "replicasets statefulsets", informer, spreads, "", ""},
		{true, "policy", "poddisruptionbudgets", informer, "protects pods from preemption", "", ""},
		{true, "", "namespaces", informer, "selects namespaces (InterPodAffinity)", "", ""},
		{true, "", "persistentvolumes persistentvolumeclaims", informer + " patch update", "binds volumes", "", ""},
		{true, "storage.k8s.io", "storageclasses csidrivers csistoragecapacities", informer, "provisions volumes", "", ""},
		{true, "storage.k8s.io", "csinodes volumeattachments", informer, "counts volumes (NodeVolumeLimits)", "", ""},
		{true, devices, "deviceclasses resourceslices", informer, "allocates devices", "", ""},
		{true, devices, "resourceclaims", informer + " patch update create delete", "allocates devices", "", ""},
		{true, devices, "resourceclaims/status", "patch update", "allocates devices", "", ""},
		// Kubernetes 1.36 enables DRAResourceClaimGranularStatusAuthorization by default.
		{since(36), devices, "resourceclaims/binding", "patch update", "allocates devices, from Kubernetes 1.36 on", "", ""},
		{since(37), devices, "devicetaintrules", informer, "avoids tainted devices, from Kubernetes 1.37 on", "", ""},
		{gate(cluster.GroupsGate), groups, "podgroups", informer, together, "", ""},
		{gate(cluster.GroupsGate), groups, "podgroups/status", "patch update", together, "", ""},
		{gate("CompositePodGroup"), groups, "compositepodgroups", informer, together, "", ""},
		{gate("CompositePodGroup"), groups, "compositepodgroups/status", "patch update", together, "", ""},
		{true, "authentication.k8s.io", "tokenreviews", "create", authorizes, "", ""},
		{true, "authorization.k8s.io", "subjectaccessreviews", "create", authorizes, "", ""},
		{true, "", "configmaps", informer, authorizes, system, authentication},
		{lease.LeaderElect, leases, "leases", "create", elects, lease.ResourceNamespace, ""},
		{lease.LeaderElect, leases, "leases", "get update", elects, lease.ResourceNamespace, lease.ResourceName},
	} {
		for resource := range strings.FieldsSeq(row.resources) {
			if row.needed {
				list = append(list, cluster.Permission{
					Group: row.group, Resource: resource, Verbs: strings.Fields(row.verbs),
					Namespace: row.namespace, Name: row.name, Purpose: row.purpose,
				})
			}
		}
	}
	return append(list, f.LoadPermissions()...)
}

// LoadPermissions returns the permissions to read load.
func (f *Facts) LoadPermissions() (list []cluster.Permission) {
	add := func(resource, purpose string) {
		list = append(list, cluster.Permission{Group: aggregated, Resource: resource, Verbs: []string{"list"}, Purpose: purpose})
	}
	if slices.ContainsFunc(f.sources, func(s *sourceFacts) bool { return s.Route == cluster.Aggregation }) {
		add("nodes", "reads the load of nodes")
	}
	if slices.ContainsFunc(f.statistics, func(s provider.StatisticsStatus) bool { return !s.FromPrometheus() }) {
		add("pods", "learns what workloads use")
	}
	return list
}

// readPermissions asks which permissions the scheduler's account lacks, or the program's user if the account is unknown.
func (g *gatherer) readPermissions(ctx context.Context) {
	p, needed, impersonated := &g.permissions, g.neededPermissions(), ""
	if w := g.Workload(); w != nil && !g.inPod && g.conn.KubeConfig.Impersonate.UserName == "" {
		impersonated = w.User()
	}
	if p.user = impersonated; impersonated == "" {
		p.user = g.conn.User(ctx)
	}
	for i := range needed {
		p.needed += len(needed[i].Verbs)
	}
	p.missing, p.err = g.conn.MissingPermissions(ctx, impersonated, needed)
}

func (f *Facts) checkPermissions() []Result {
	switch p := &f.permissions; {
	case p.err != nil:
		const advice = "Perhaps you lack permission to impersonate it. Check in the scheduler's pod, with its own permissions:"
		return Warn(f.adviseInPod(advice), "the permissions of %s could not be checked: %s", nameOf(p.user), OneLine(p.err))
	case len(p.missing) > 0:
		return f.MissingChecks(Fail, p.user, "scheduler", p.missing)
	default:
		return Fine("%s has all %d required permissions", nameOf(p.user), p.needed)
	}
}

// checkLists checks that the program's user can list what the scheduler reads.
func (f *Facts) checkLists() []Result {
	if f.objectsErr != nil {
		return Fail(Advise("Run this as a user with permission to list nodes and pods, or grant it."), "%s", OneLine(f.objectsErr))
	}
	var missing []cluster.Permission
	results := each(f.missing, func(kind cluster.MissingKind) []Result {
		if !apierrors.IsForbidden(kind.Err) {
			return Warn(f.AdviseRun(cluster.Kubectl("get", cluster.ResourceName(kind.Group, kind.Resource), "--all-namespaces"),
				"Ignore it if the cluster does not have the kind. Otherwise see what the API server answers:"),
				"%s could not be listed: %s", cluster.ResourceName(kind.Group, kind.Resource), OneLine(kind.Err))
		}
		const purpose = "reads these objects; the checks ignore them"
		missing = append(missing, cluster.Permission{
			Group: kind.Group, Resource: kind.Resource, Verbs: []string{"list"}, Purpose: purpose,
		})
		return nil
	})
	return append(results, f.MissingChecks(Warn, f.user, "scheduler", missing)...)
}

func nameOf(user string) string {
	if user == cluster.UnknownUser {
		return "your user"
	}
	return user
}

// MissingChecks returns a result for each permission that the program lacks. One advice grants them all.
func (f *Facts) MissingChecks(result reporter, user, program string, missing []cluster.Permission) []Result {
	advice := f.adviseGrant("Grant all of them", missing, user)
	return each(missing, func(p cluster.Permission) []Result {
		return result(advice, "%s lacks permission to %s: the %s %s", nameOf(user), &p, program, p.Purpose)
	})
}

package doctor

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
)

// permissionFacts are the permissions of the scheduler's account.
type permissionFacts struct {
	user    string
	needed  int
	lacking []live.Permission
	err     error
}

// neededPermissions returns those of the scheduler with its configuration.
func (f *facts) neededPermissions() []live.Permission {
	v, err := version.ParseGeneric(f.server.GitVersion)
	since37, lease := err == nil && v.AtLeast(version.MajorMinor(1, 37)), f.election()
	nodes, pods := f.readsMetricsServer()
	const informer, metrics, devices = "get list watch", "authorizes who reads its metrics", "resource.k8s.io"
	var list []live.Permission
	for _, row := range []struct {
		needed                           bool
		group, resources, verbs, purpose string
		namespace, name                  string
	}{
		{true, "", "events", "create patch update", "reports placements as events", "", ""},
		{true, "events.k8s.io", "events", "create patch update", "reports placements as events", "", ""},
		{true, "", "nodes", informer, "places pods on nodes", "", ""},
		{true, "", "pods", informer + " delete", "places pods, and preempts them", "", ""},
		{true, "", "pods/binding", "create", "binds pods to nodes", "", ""},
		{true, "", "pods/status", "patch update", "reports why a pod waits", "", ""},
		{true, "", "services replicationcontrollers", informer, "spreads pods (PodTopologySpread)", "", ""},
		{true, "apps", "replicasets statefulsets", informer, "spreads pods (PodTopologySpread)", "", ""},
		{true, "policy", "poddisruptionbudgets", informer, "protects pods from preemption", "", ""},
		{true, "", "namespaces", informer, "selects namespaces (InterPodAffinity)", "", ""},
		{true, "", "persistentvolumes persistentvolumeclaims", informer + " patch update", "binds volumes", "", ""},
		{true, "storage.k8s.io", "storageclasses csidrivers csistoragecapacities", informer, "provisions volumes", "", ""},
		{true, "storage.k8s.io", "csinodes volumeattachments", informer, "counts volumes (NodeVolumeLimits)", "", ""},
		{true, devices, "deviceclasses resourceslices", informer, "allocates devices", "", ""},
		{true, devices, "resourceclaims", informer + " patch update create delete", "allocates devices", "", ""},
		{true, devices, "resourceclaims/status", "patch update", "allocates devices", "", ""},
		{since37, devices, "devicetaintrules", informer, "avoids tainted devices, from Kubernetes 1.37 on", "", ""},
		{true, "authentication.k8s.io", "tokenreviews", "create", metrics, "", ""},
		{true, "authorization.k8s.io", "subjectaccessreviews", "create", metrics, "", ""},
		{true, "", "configmaps", informer, metrics, "kube-system", "extension-apiserver-authentication"},
		{lease.LeaderElect, "coordination.k8s.io", "leases", "create", "elects a leader", lease.ResourceNamespace, ""},
		{
			lease.LeaderElect, "coordination.k8s.io", "leases", "get update", "elects a leader",
			lease.ResourceNamespace, lease.ResourceName,
		},
		{nodes, "metrics.k8s.io", "nodes", "list", "reads the load of nodes", "", ""},
		{pods, "metrics.k8s.io", "pods", "list", "learns what workloads use", "", ""},
	} {
		for resource := range strings.FieldsSeq(row.resources) {
			if row.needed {
				list = append(list, live.Permission{
					Group: row.group, Resource: resource, Verbs: strings.Fields(row.verbs),
					Namespace: row.namespace, Name: row.name, Purpose: row.purpose,
				})
			}
		}
	}
	return list
}

// readPermissions asks which permissions the scheduler's account lacks. Without a workload it is the program's user.
func (g *gatherer) readPermissions(ctx context.Context) {
	p, needed, impersonated := &g.permissions, g.neededPermissions(), ""
	if w := g.workload(); w != nil && !g.inPod && g.conn.KubeConfig.Impersonate.UserName == "" {
		impersonated = w.User()
	}
	if p.user = impersonated; impersonated == "" {
		p.user = g.conn.User(ctx)
	}
	for i := range needed {
		p.needed += len(needed[i].Verbs)
	}
	p.lacking, p.err = g.conn.Lacking(ctx, impersonated, needed)
}

// checkPermissions checks those of the scheduler's account.
func (f *facts) checkPermissions() []Check {
	p := &f.permissions
	switch {
	case p.err != nil:
		advice := "Check in the scheduler's pod, with its own permissions:"
		if apierrors.IsForbidden(p.err) {
			advice = "You lack permission to impersonate the scheduler's account. " + advice
		}
		return warn(f.runInPod("%s", advice), "the permissions of %s could not be checked: %s", nameOf(p.user), oneLine(p.err))
	case len(p.lacking) > 0:
		return lackingChecks(fail, p.user, p.lacking)
	}
	return ok("%s has all %d required permissions", nameOf(p.user), p.needed)
}

// checkLists checks that the user of the command can list what the scheduler reads.
func (f *facts) checkLists() []Check {
	if f.objectsErr != nil {
		return fail(run("", "Run this as a user with permission to list nodes and pods, or grant it."), "%s", oneLine(f.objectsErr))
	}
	var lacking []live.Permission
	var checks []Check
	for i := range f.missing {
		kind := &f.missing[i]
		if apierrors.IsForbidden(kind.Err) {
			lacking = append(lacking, live.Permission{
				Group: kind.Group, Resource: kind.Resource, Verbs: []string{"list"}, Purpose: "reads these objects; the checks ignore them",
			})
			continue
		}
		checks = append(checks, warn(run("", "Ignore it if the cluster does not have the kind; otherwise do what the message says."),
			"%s could not be listed: %s", live.ResourceName(kind.Group, kind.Resource), oneLine(kind.Err))...)
	}
	return append(checks, lackingChecks(warn, f.user, lacking)...)
}

// nameOf returns the user as messages name it.
func nameOf(user string) string {
	if user == live.UnknownUser {
		return "your user"
	}
	return user
}

// lackingChecks returns a result for each permission. One advice grants them all.
func lackingChecks(result func([]Advice, string, ...any) []Check, user string, lacking []live.Permission) []Check {
	var checks []Check
	file := "this to a file"
	if user == live.UnknownUser {
		file = "this, with the name of your user instead of " + user + ", to a file"
	}
	for i := range lacking {
		p := &lacking[i]
		checks = append(checks, result(
			write(live.Grants(lacking, live.Subject(user)), "Grant all of them; write %s, and kubectl apply -f FILE:", file),
			"%s lacks permission to %s: the scheduler %s", nameOf(user), p, p.Purpose)...)
	}
	return checks
}

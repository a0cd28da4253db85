package doctor

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
)

// permission is what an account needs to do.
type permission struct {
	// group, resource (with a subresource after a slash) and verbs are as in an RBAC rule. A path replaces the resource.
	group, resource string
	verbs           []string
	path            string
	// namespace and name restrict the permission; both may be empty.
	namespace, name string
	// purpose completes the sentence "The scheduler …".
	purpose string
}

// permissionFacts are the permissions of the scheduler's account.
type permissionFacts struct {
	account subject
	needed  int
	lacking []permission
	err     error
}

// neededPermissions returns those of the scheduler with its configuration.
func (f *facts) neededPermissions() []permission {
	const informer, metrics = "get list watch", "authorizes who reads its metrics"
	var list []permission
	for _, row := range []struct{ group, resources, verbs, purpose string }{
		{"", "events", "create patch update", "reports placements as events"},
		{"events.k8s.io", "events", "create patch update", "reports placements as events"},
		{"", "nodes", informer, "places pods on nodes"},
		{"", "pods", informer + " delete", "places pods, and preempts them"},
		{"", "pods/binding", "create", "binds pods to nodes"},
		{"", "pods/status", "patch update", "reports why a pod waits"},
		{"", "services replicationcontrollers", informer, "spreads pods (PodTopologySpread)"},
		{"apps", "replicasets statefulsets", informer, "spreads pods (PodTopologySpread)"},
		{"policy", "poddisruptionbudgets", informer, "protects pods from preemption"},
		{"", "namespaces", informer, "selects namespaces (InterPodAffinity)"},
		{"", "persistentvolumes persistentvolumeclaims", informer + " patch update", "binds volumes (VolumeBinding)"},
		{"storage.k8s.io", "storageclasses csidrivers csistoragecapacities", informer, "provisions volumes (VolumeBinding)"},
		{"storage.k8s.io", "csinodes volumeattachments", informer, "counts volumes (NodeVolumeLimits)"},
		{"resource.k8s.io", "deviceclasses resourceslices", informer, "allocates devices (DynamicResources)"},
		{"resource.k8s.io", "resourceclaims", informer + " patch update create delete", "allocates devices (DynamicResources)"},
		{"resource.k8s.io", "resourceclaims/status", "patch update", "allocates devices (DynamicResources)"},
		{"authentication.k8s.io", "tokenreviews", "create", metrics},
		{"authorization.k8s.io", "subjectaccessreviews", "create", metrics},
	} {
		for resource := range strings.FieldsSeq(row.resources) {
			list = append(list, permission{group: row.group, resource: resource, verbs: strings.Fields(row.verbs), purpose: row.purpose})
		}
	}
	list = append(list, permission{
		resource:  "configmaps",
		verbs:     strings.Fields(informer),
		namespace: "kube-system",
		name:      "extension-apiserver-authentication",
		purpose:   metrics,
	})
	if v, err := version.ParseGeneric(f.server.GitVersion); err == nil && v.AtLeast(version.MajorMinor(1, 37)) {
		list = append(list, permission{
			group:    "resource.k8s.io",
			resource: "devicetaintrules",
			verbs:    strings.Fields(informer),
			purpose:  "avoids tainted devices, from Kubernetes 1.37 on",
		})
	}
	if election := f.election(); election.LeaderElect {
		lease := permission{
			group:     "coordination.k8s.io",
			resource:  "leases",
			verbs:     []string{"create"},
			namespace: election.ResourceNamespace,
			purpose:   "elects a leader",
		}
		list = append(list, lease)
		lease.verbs, lease.name = []string{"get", "update"}, election.ResourceName
		list = append(list, lease)
	}
	nodes, pods := f.readsMetricsServer()
	if nodes {
		list = append(
			list,
			permission{group: "metrics.k8s.io", resource: "nodes", verbs: []string{"list"}, purpose: "reads the load of nodes"},
		)
	}
	if pods {
		list = append(
			list,
			permission{group: "metrics.k8s.io", resource: "pods", verbs: []string{"list"}, purpose: "learns what workloads use"},
		)
	}
	return list
}

// readPermissions asks which permissions the scheduler's account lacks.
func (g *gatherer) readPermissions(ctx context.Context) {
	p := &g.facts.permissions
	account, cfg := g.schedulerAccount(ctx)
	p.account = account
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		p.err = err
		return
	}
	needed := g.neededPermissions()
	for _, permission := range needed {
		p.needed += len(permission.verbs)
	}
	p.lacking, p.err = lackingPermissions(ctx, client, needed)
}

// schedulerAccount returns the scheduler's account, and how to ask for its permissions. Without a workload it is the program's user.
func (g *gatherer) schedulerAccount(ctx context.Context) (subject, *rest.Config) {
	cfg := rest.CopyConfig(g.conn.KubeConfig)
	w := g.workload()
	if cfg.Impersonate.UserName != "" || w == nil || g.inPod {
		return subjectOf(g.conn.User(ctx)), cfg
	}
	cfg.Impersonate.UserName = "system:kube-scheduler" // of a static pod
	if w.ServiceAccount != "" {
		cfg.Impersonate.UserName = fmt.Sprintf("system:serviceaccount:%s:%s", w.Namespace, w.ServiceAccount)
	}
	return subjectOf(cfg.Impersonate.UserName), cfg
}

// lackingPermissions returns the permissions that the client's user lacks, with the verbs that are denied.
func lackingPermissions(ctx context.Context, client kubernetes.Interface, needed []permission) ([]permission, error) {
	const concurrent = 8
	denied := make([][]string, len(needed))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrent)
	for i := range needed {
		group.Go(func() error {
			p := &needed[i]
			resource, subresource, _ := strings.Cut(p.resource, "/")
			for _, verb := range p.verbs {
				review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
					Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
						Group: p.group, Resource: resource, Subresource: subresource, Namespace: p.namespace, Name: p.name, Verb: verb,
					}},
				}, metav1.CreateOptions{})
				if err != nil {
					return err
				}
				if !review.Status.Allowed {
					denied[i] = append(denied[i], verb)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var lacking []permission
	for i, p := range needed {
		if p.verbs = denied[i]; len(p.verbs) > 0 {
			lacking = append(lacking, p)
		}
	}
	return lacking, nil
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
		return warn(f.runInPod("%s", advice), "the permissions of %s could not be checked: %s", p.account.shown, oneLine(p.err))
	case len(p.lacking) > 0:
		return lackingChecks(Error, p.account, p.lacking)
	}
	return ok("%s has all %d required permissions", p.account.shown, p.needed)
}

// checkLists checks that the user of the command can list what the scheduler reads.
func (f *facts) checkLists() []Check {
	if f.objectsErr != nil {
		return fail(
			run("", "Run this as a user with permission to list nodes and pods, or grant the permission."),
			"%s",
			oneLine(f.objectsErr),
		)
	}
	var lacking []permission
	var checks []Check
	for i := range f.missing {
		kind := &f.missing[i]
		if apierrors.IsForbidden(kind.Err) {
			lacking = append(lacking, permission{
				group: kind.Group, resource: kind.Resource, verbs: []string{"list"}, purpose: "reads these objects; the checks ignore them",
			})
			continue
		}
		checks = append(checks, warn(run("", "Ignore it if the cluster does not have the kind; otherwise do what the message says."),
			"%s could not be listed: %s", resourceName(kind.Group, kind.Resource), oneLine(kind.Err))...)
	}
	return append(checks, lackingChecks(Warning, subjectOf(f.user), lacking)...)
}

// lackingChecks returns a check for each permission. One advice grants them all.
func lackingChecks(status Status, to subject, lacking []permission) []Check {
	var checks []Check
	text := "Grant all of them; write this to a file, and kubectl apply -f FILE:"
	if to.Name == live.UnknownUser {
		text = "Grant all of them; write this to a file with the name of your user instead of " + live.UnknownUser + ", and kubectl apply -f FILE:"
	}
	for _, p := range lacking {
		message := fmt.Sprintf(
			"%s lacks permission to %s %s: the scheduler %s",
			to.shown,
			strings.Join(p.verbs, ", "),
			p.shown(),
			p.purpose,
		)
		checks = append(checks, Check{Status: status, Message: message, Advice: write(grants(lacking, to), "%s", text)})
	}
	return checks
}

// subject is an account that needs permissions.
type subject struct {
	rbacv1.Subject
	shown string
}

// subjectOf returns the subject of a binding to a user.
func subjectOf(user string) subject {
	shown := user
	if user == live.UnknownUser {
		shown = "your user"
	}
	if account, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		namespace, name, _ := strings.Cut(account, ":")
		return subject{rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}, shown}
	}
	return subject{rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}, shown}
}

// shown returns the resource as messages name it.
func (p *permission) shown() string {
	shown := resourceName(p.group, p.resource)
	if p.name != "" {
		shown += " " + p.name
	}
	if p.namespace != "" {
		shown += " in " + p.namespace
	}
	return shown
}

// resourceName returns the resource as kubectl names it, such as nodes.metrics.k8s.io.
func resourceName(group, resource string) string {
	if group == "" {
		return resource
	}
	base, sub, found := strings.Cut(resource, "/")
	name := base + "." + group
	if found {
		name += "/" + sub
	}
	return name
}

// grants returns a ClusterRole, and a Role for each namespace, with a binding of each to the subject. Names depend on the
// content, so that applying one advice does not undo another.
func grants(permissions []permission, to subject) string {
	rules := map[string][]rbacv1.PolicyRule{}
	for i := range permissions {
		p := &permissions[i]
		rule := rbacv1.PolicyRule{APIGroups: []string{p.group}, Resources: []string{p.resource}, Verbs: p.verbs}
		if p.path != "" {
			rule = rbacv1.PolicyRule{NonResourceURLs: []string{p.path}, Verbs: p.verbs}
		}
		if p.name != "" {
			rule.ResourceNames = []string{p.name}
		}
		all := rules[p.namespace]
		same := slices.IndexFunc(all, func(other rbacv1.PolicyRule) bool {
			return slices.Equal(other.APIGroups, rule.APIGroups) && slices.Equal(other.Verbs, rule.Verbs) &&
				slices.Equal(other.ResourceNames, rule.ResourceNames)
		})
		if same >= 0 {
			all[same].Resources = append(all[same].Resources, p.resource)
			continue
		}
		rules[p.namespace] = append(all, rule)
	}
	var documents []string
	for _, namespace := range sortedKeys(rules) {
		sum := sha256.Sum256([]byte(fmt.Sprint(to.Subject, rules[namespace])))
		metadata := metav1.ObjectMeta{Name: fmt.Sprintf("plimsoll-may-%x", sum[:4]), Namespace: namespace}
		kind := "ClusterRole"
		if namespace != "" {
			kind = "Role"
		}
		// Both kinds have the same fields.
		documents = append(documents,
			marshal(rbacv1.Role{TypeMeta: typeMeta(kind), ObjectMeta: metadata, Rules: rules[namespace]}),
			marshal(rbacv1.RoleBinding{
				TypeMeta: typeMeta(kind + "Binding"), ObjectMeta: metadata, Subjects: []rbacv1.Subject{to.Subject},
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: metadata.Name},
			}))
	}
	return strings.Join(documents, "---\n")
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

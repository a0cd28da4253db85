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
	componentbaseconfig "k8s.io/component-base/config"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
)

// right is what the scheduler must be allowed.
type right struct {
	// group, resource (with a subresource after a slash) and verbs are as in an RBAC rule.
	group, resource string
	verbs           []string
	// namespace and name restrict the right; both may be empty.
	namespace, name string
	// purpose says what it is for.
	purpose string
}

// rightsOf returns the rights that a scheduler of the API server's version needs with the configuration.
func rightsOf(cfg *schedulerconfig.KubeSchedulerConfiguration, election componentbaseconfig.LeaderElectionConfiguration, server string) []right {
	informer := []string{"get", "list", "watch"}
	list := []right{
		{group: "", resource: "events", verbs: []string{"create", "patch", "update"}, purpose: "it reports placements as events"},
		{group: "events.k8s.io", resource: "events", verbs: []string{"create", "patch", "update"}, purpose: "it reports placements as events"},
		{resource: "nodes", verbs: informer, purpose: "it places pods on nodes"},
		{resource: "pods", verbs: []string{"get", "list", "watch", "delete"}, purpose: "it places pods, and preempts them"},
		{resource: "pods/binding", verbs: []string{"create"}, purpose: "it binds pods to nodes"},
		{resource: "pods/status", verbs: []string{"patch", "update"}, purpose: "it reports why a pod waits"},
		{resource: "services", verbs: informer, purpose: "PodTopologySpread spreads the pods of a service"},
		{resource: "replicationcontrollers", verbs: informer, purpose: "PodTopologySpread spreads the pods of a controller"},
		{group: "apps", resource: "replicasets", verbs: informer, purpose: "PodTopologySpread spreads the pods of a controller"},
		{group: "apps", resource: "statefulsets", verbs: informer, purpose: "PodTopologySpread spreads the pods of a controller"},
		{group: "policy", resource: "poddisruptionbudgets", verbs: informer, purpose: "preemption spares what budgets protect"},
		{resource: "namespaces", verbs: informer, purpose: "InterPodAffinity selects namespaces"},
		{resource: "persistentvolumes", verbs: []string{"get", "list", "watch", "patch", "update"}, purpose: "VolumeBinding binds volumes"},
		{resource: "persistentvolumeclaims", verbs: []string{"get", "list", "watch", "patch", "update"}, purpose: "VolumeBinding binds volumes"},
		{group: "storage.k8s.io", resource: "storageclasses", verbs: informer, purpose: "VolumeBinding provisions volumes"},
		{group: "storage.k8s.io", resource: "csinodes", verbs: informer, purpose: "NodeVolumeLimits counts volumes"},
		{group: "storage.k8s.io", resource: "volumeattachments", verbs: informer, purpose: "NodeVolumeLimits counts volumes"},
		{group: "storage.k8s.io", resource: "csidrivers", verbs: informer, purpose: "VolumeBinding provisions volumes"},
		{group: "storage.k8s.io", resource: "csistoragecapacities", verbs: informer, purpose: "VolumeBinding provisions volumes"},
		{group: "resource.k8s.io", resource: "deviceclasses", verbs: informer, purpose: "DynamicResources allocates devices"},
		{group: "resource.k8s.io", resource: "resourceslices", verbs: informer, purpose: "DynamicResources allocates devices"},
		{group: "resource.k8s.io", resource: "resourceclaims", verbs: []string{"get", "list", "watch", "patch", "update", "create", "delete"}, purpose: "DynamicResources allocates devices"},
		{group: "resource.k8s.io", resource: "resourceclaims/status", verbs: []string{"patch", "update"}, purpose: "DynamicResources allocates devices"},
		{group: "authentication.k8s.io", resource: "tokenreviews", verbs: []string{"create"}, purpose: "it authenticates who reads its metrics"},
		{group: "authorization.k8s.io", resource: "subjectaccessreviews", verbs: []string{"create"}, purpose: "it authorizes who reads its metrics"},
		{resource: "configmaps", verbs: informer, namespace: "kube-system", name: "extension-apiserver-authentication", purpose: "it authenticates who reads its metrics"},
	}
	if v, err := version.ParseGeneric(server); err == nil && v.AtLeast(version.MajorMinor(1, 37)) {
		list = append(list, right{group: "resource.k8s.io", resource: "devicetaintrules", verbs: informer, purpose: "DynamicResources avoids tainted devices, from Kubernetes 1.37 on"})
	}
	if election.LeaderElect {
		const lease = "coordination.k8s.io"
		list = append(list,
			right{group: lease, resource: "leases", verbs: []string{"create"}, namespace: election.ResourceNamespace, purpose: "it elects a leader"},
			right{group: lease, resource: "leases", verbs: []string{"get", "update"}, namespace: election.ResourceNamespace, name: election.ResourceName, purpose: "it elects a leader"})
	}
	nodes, pods := readsMetricsServer(cfg)
	if nodes {
		list = append(list, right{group: "metrics.k8s.io", resource: "nodes", verbs: []string{"list"}, purpose: "each refresh lists it"})
	}
	if pods {
		list = append(list, right{group: "metrics.k8s.io", resource: "pods", verbs: []string{"list"}, purpose: "statistics of workloads are read from it"})
	}
	return list
}

// readsMetricsServer reports what is read from metrics-server.
func readsMetricsServer(cfg *schedulerconfig.KubeSchedulerConfiguration) (nodes, pods bool) {
	for i := range cfg.Profiles {
		for _, pluginConfig := range cfg.Profiles[i].PluginConfig {
			args, ok := pluginConfig.Args.(interface{ GetLoadSpec() *config.LoadSpec })
			if !ok || !enabled(&cfg.Profiles[i], pluginConfig.Name) {
				continue
			}
			spec := args.GetLoadSpec()
			prometheus := spec.WatcherAddress == "" && spec.MetricProvider.Type == config.Prometheus
			nodes = nodes || spec.WatcherAddress == "" && spec.MetricProvider.Type == config.KubernetesMetricsServer
			statistics := pluginConfig.Name == config.PredictedPeak
			if limit, ok := pluginConfig.Args.(*config.LoadThresholdArgs); ok {
				statistics = limit.Statistic == config.StatisticPredictedPeak
			}
			pods = pods || statistics && !prometheus
		}
	}
	return nodes, pods
}

// checkRights checks the rights of the scheduler's account.
func (e *examination) checkRights(ctx context.Context) {
	if e.configuration == nil || e.configuration.Decoded == nil {
		return
	}
	subject, cfg := e.schedulerSubject(ctx)
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		e.add(Error, "rights.scheduler", oneLine(err), Advice{Text: "Do what the message says."})
		return
	}
	needed := rightsOf(e.configuration.Decoded, e.election(), e.server.gitVersion)
	lacking, err := lackingRights(ctx, client, needed)
	if err != nil {
		advice := Advice{Text: "Check in the scheduler's pod, with its own rights:", Command: execCommand(e.configuration.Workload)}
		if apierrors.IsForbidden(err) {
			advice.Text = "You may not act as the scheduler's account. " + advice.Text
		}
		e.add(Warning, "rights.scheduler", fmt.Sprintf("the rights of %s could not be checked: %s", subject.shown, oneLine(err)), advice)
		return
	}
	if len(lacking) == 0 {
		n := 0
		for _, r := range needed {
			n += len(r.verbs)
		}
		e.add(OK, "rights.scheduler", fmt.Sprintf("%s may do all that is needed, by %s", subject.shown, text.Count(n, "right")))
		return
	}
	e.addLacking(Error, "rights.scheduler", subject, lacking)
}

// addLacking adds a check for each right that is lacking. One advice grants them all.
func (e *examination) addLacking(status Status, id string, to subject, lacking []right) {
	if len(lacking) == 0 {
		return
	}
	advice := Advice{Text: "Grant it all; write this to a file, and kubectl apply -f FILE:", YAML: grants(lacking, to)}
	if to.Name == live.UnknownUser {
		advice.Text = "Grant it all; write this to a file with the name of your user in place of " + live.UnknownUser + ", and kubectl apply -f FILE:"
	}
	for _, r := range lacking {
		e.add(status, id, fmt.Sprintf("%s may not %s %s: %s", to.shown, strings.Join(r.verbs, ", "), r.shown(), r.purpose), advice)
	}
}

// checkMissing adds checks for kinds that the user could not list.
func (e *examination) checkMissing(ctx context.Context, missing []live.MissingKind) {
	var lacking []right
	for i := range missing {
		kind := &missing[i]
		if apierrors.IsForbidden(kind.Err) {
			lacking = append(lacking, right{
				group: kind.Group, resource: kind.Resource, verbs: []string{"list"}, purpose: "the checks do without these objects, and may differ from what the scheduler does",
			})
			continue
		}
		e.add(Warning, "rights.list", fmt.Sprintf("%s could not be listed: %s", resourceName(kind.Group, kind.Resource), oneLine(kind.Err)), Advice{
			Text: "Ignore it if the cluster does not have the kind; otherwise do what the message says.",
		})
	}
	if len(lacking) > 0 {
		e.addLacking(Warning, "rights.list", subjectOf(e.conn.User(ctx)), lacking)
	}
}

// subject is who needs rights.
type subject struct {
	rbacv1.Subject
	shown string
}

// subjectOf returns the subject of a binding to a user.
func subjectOf(user string) subject {
	shown := user
	if user == live.UnknownUser {
		shown = "your own user"
	}
	if account, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		namespace, name, _ := strings.Cut(account, ":")
		return subject{rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}, shown}
	}
	return subject{rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}, shown}
}

// schedulerSubject returns the scheduler's account, and how to ask for its rights. Without a workload it is the program's user.
func (e *examination) schedulerSubject(ctx context.Context) (subject, *rest.Config) {
	cfg := rest.CopyConfig(e.conn.KubeConfig)
	w := e.configuration.Workload
	if cfg.Impersonate.UserName == "" && w != nil && !inPodOf(e.conn, w) && w.Name != "" { // without a name it is that of this container
		cfg.Impersonate.UserName = "system:kube-scheduler" // of a static pod
		if w.ServiceAccount != "" {
			cfg.Impersonate.UserName = fmt.Sprintf("system:serviceaccount:%s:%s", w.Namespace, w.ServiceAccount)
		}
		return subjectOf(cfg.Impersonate.UserName), cfg
	}
	return subjectOf(e.conn.User(ctx)), cfg
}

// lackingRights returns the rights that the client's user does not have, with the verbs that are not allowed.
func lackingRights(ctx context.Context, client kubernetes.Interface, needed []right) ([]right, error) {
	const concurrent = 8
	denied := make([][]string, len(needed))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrent)
	for i := range needed {
		group.Go(func() error {
			r := &needed[i]
			resource, subresource, _ := strings.Cut(r.resource, "/")
			for _, verb := range r.verbs {
				review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
					Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
						Group: r.group, Resource: resource, Subresource: subresource, Namespace: r.namespace, Name: r.name, Verb: verb,
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
	var lacking []right
	for i, r := range needed {
		if len(denied[i]) > 0 {
			r.verbs = denied[i]
			lacking = append(lacking, r)
		}
	}
	return lacking, nil
}

// shown returns the resource as messages name it.
func (r *right) shown() string {
	shown := resourceName(r.group, r.resource)
	if r.name != "" {
		shown += " " + r.name
	}
	if r.namespace != "" {
		shown += " in " + r.namespace
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

// grants returns a ClusterRole with the rights, and a Role with those of each namespace, with a binding of each to the subject. Their
// names depend on their content: to apply one advice does not take back another.
func grants(rights []right, to subject) string {
	rules := map[string][]rbacv1.PolicyRule{}
	for i := range rights {
		r := &rights[i]
		rule := rbacv1.PolicyRule{APIGroups: []string{r.group}, Resources: []string{r.resource}, Verbs: r.verbs}
		if r.name != "" {
			rule.ResourceNames = []string{r.name}
		}
		all := rules[r.namespace]
		same := slices.IndexFunc(all, func(other rbacv1.PolicyRule) bool {
			return slices.Equal(other.APIGroups, rule.APIGroups) && slices.Equal(other.Verbs, rule.Verbs) && slices.Equal(other.ResourceNames, rule.ResourceNames)
		})
		if same >= 0 {
			all[same].Resources = append(all[same].Resources, r.resource)
			continue
		}
		rules[r.namespace] = append(all, rule)
	}
	var documents []string
	for _, namespace := range sortedKeys(rules) {
		sum := sha256.Sum256([]byte(fmt.Sprint(to.Subject, rules[namespace])))
		metadata := metav1.ObjectMeta{Name: fmt.Sprintf("plimsoll-may-%x", sum[:4]), Namespace: namespace}
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: metadata.Name}
		subjects := []rbacv1.Subject{to.Subject}
		if namespace == "" {
			documents = append(documents,
				marshal(rbacv1.ClusterRole{TypeMeta: typeMeta("ClusterRole"), ObjectMeta: metadata, Rules: rules[namespace]}),
				marshal(rbacv1.ClusterRoleBinding{TypeMeta: typeMeta("ClusterRoleBinding"), ObjectMeta: metadata, RoleRef: ref, Subjects: subjects}))
			continue
		}
		ref.Kind = "Role"
		documents = append(documents,
			marshal(rbacv1.Role{TypeMeta: typeMeta("Role"), ObjectMeta: metadata, Rules: rules[namespace]}),
			marshal(rbacv1.RoleBinding{TypeMeta: typeMeta("RoleBinding"), ObjectMeta: metadata, RoleRef: ref, Subjects: subjects}))
	}
	return strings.Join(documents, "---\n")
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

// marshal returns the YAML of an object of strings.
func marshal(object any) string {
	text, _ := yaml.Marshal(object) // such an object has a YAML
	return strings.ReplaceAll(string(text), "  creationTimestamp: null\n", "")
}

package cluster

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// Permission is a permission that a program needs.
type Permission struct {
	// Group, Resource (with a subresource after a slash) and Verbs are as in an RBAC rule. Path replaces Group and Resource.
	Group, Resource string
	Verbs           []string
	Path            string
	// Namespace and Name restrict the permission; both may be empty.
	Namespace, Name string
	// Purpose completes the sentence "The scheduler …", or "The rebalancer …".
	Purpose string
}

func (p *Permission) String() string {
	text := strings.Join(p.Verbs, ", ") + " " + ResourceName(p.Group, p.Resource)
	if p.Name != "" {
		text += " " + p.Name
	}
	if p.Namespace != "" {
		text += " in " + p.Namespace
	}
	return text
}

// ResourceName returns the resource as kubectl names it, such as nodes.metrics.k8s.io.
func ResourceName(group, resource string) string {
	if group == "" {
		return resource
	}
	base, sub, found := strings.Cut(resource, "/")
	if found {
		sub = "/" + sub
	}
	return base + "." + group + sub
}

// Subject returns the subject of a binding to a user.
func Subject(user string) rbacv1.Subject {
	if namespace, name, err := serviceaccount.SplitUsername(user); err == nil {
		return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
	}
	return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}
}

func subjectFlag(user string) string {
	subject := Subject(user)
	if subject.Kind == rbacv1.ServiceAccountKind {
		return "--serviceaccount=" + subject.Namespace + ":" + subject.Name
	}
	return "--user=" + subject.Name
}

// Grant returns the commands that grant the connection's user a permission in all namespaces. resource may have a subresource.
func (c *Connection) Grant(ctx context.Context, verbs, group, resource string) string {
	return grant(&Permission{Group: group, Resource: resource, Verbs: []string{verbs}}, c.User(ctx)).For(c.Chosen)
}

// grant returns the commands that grant the user a permission: by a Role if it is for one namespace.
func grant(p *Permission, user string) Command {
	kind, in := "clusterrole", []string{"create"}
	if p.Namespace != "" {
		kind, in = "role", []string{"-n", p.Namespace, "create"}
	}
	first, _, _ := strings.Cut(p.Resource, ",")
	name := "plimsoll-inspect-" + strings.ReplaceAll(first, "/", "-")
	create := Granting(in...).With(kind, name, "--verb="+strings.Join(p.Verbs, ","), "--resource="+ResourceName(p.Group, p.Resource))
	if p.Name != "" {
		create = create.With("--resource-name=" + p.Name)
	}
	return create + " && " + Granting(in...).With(kind+"binding", name, "--"+kind+"="+name, subjectFlag(user))
}

// MissingPermissions returns the permissions that a user lacks, with the denied verbs. An empty user means the connection's.
func (c *Connection) MissingPermissions(ctx context.Context, user string, needed []Permission) ([]Permission, error) {
	cfg := rest.CopyConfig(c.KubeConfig)
	if user != "" {
		cfg.Impersonate.UserName = user
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	const concurrentReviews = 8
	denied := make([][]string, len(needed))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrentReviews)
	for i := range needed {
		group.Go(func() (err error) {
			denied[i], err = deniedVerbs(ctx, client, &needed[i])
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var missing []Permission
	for i, p := range needed {
		if p.Verbs = denied[i]; len(p.Verbs) > 0 {
			missing = append(missing, p)
		}
	}
	return missing, nil
}

func deniedVerbs(ctx context.Context, client kubernetes.Interface, p *Permission) ([]string, error) {
	var denied []string
	resource, subresource, _ := strings.Cut(p.Resource, "/")
	for _, verb := range p.Verbs {
		review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: p.Group, Resource: resource, Subresource: subresource, Namespace: p.Namespace, Name: p.Name, Verb: verb,
			}},
		}, metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		if !review.Status.Allowed {
			denied = append(denied, verb)
		}
	}
	return denied, nil
}

// Grants returns the YAML of roles and bindings that grant the permissions to the subject. Their names depend on the content, so
// that applying other grants does not overwrite them.
func Grants(permissions []Permission, subject rbacv1.Subject) string {
	rules := map[string][]rbacv1.PolicyRule{}
	for i := range permissions {
		p := &permissions[i]
		rule := rbacv1.PolicyRule{APIGroups: []string{p.Group}, Resources: []string{p.Resource}, Verbs: p.Verbs}
		if p.Path != "" {
			rule = rbacv1.PolicyRule{NonResourceURLs: []string{p.Path}, Verbs: p.Verbs}
		}
		if p.Name != "" {
			rule.ResourceNames = []string{p.Name}
		}
		rules[p.Namespace] = append(rules[p.Namespace], rule)
	}
	meta := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
	}
	var documents []string
	for _, namespace := range slices.Sorted(maps.Keys(rules)) {
		sum := sha256.Sum256([]byte(fmt.Sprint(subject, rules[namespace])))
		metadata := metav1.ObjectMeta{Name: fmt.Sprintf("plimsoll-may-%x", sum[:4]), Namespace: namespace}
		kind := "ClusterRole" // a Role with this kind has the same fields
		if namespace != "" {
			kind = "Role"
		}
		for _, object := range []any{
			rbacv1.Role{TypeMeta: meta(kind), ObjectMeta: metadata, Rules: rules[namespace]},
			rbacv1.RoleBinding{
				TypeMeta: meta(kind + "Binding"), ObjectMeta: metadata, Subjects: []rbacv1.Subject{subject},
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: metadata.Name},
			},
		} {
			document, _ := yaml.Marshal(object) // it never fails for these types
			documents = append(documents, string(document))
		}
	}
	return strings.Join(documents, "---\n")
}

package cluster

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
)

// Chosen are the values of kubectl's flags that chose the cluster and the user, by the flags' names without dashes.
type Chosen map[string][]string

// ofKubectl are the flags that choose a cluster and a user, in the order of printed commands.
var ofKubectl = []string{
	"kubeconfig", "context", "cluster", "server", "tls-server-name", "certificate-authority", "insecure-skip-tls-verify",
	"user", "client-certificate", "client-key", "as", "as-uid", "as-group",
}

// ChosenBy returns the flags that have a value. Secrets, such as --token, are left out.
func ChosenBy(flags *pflag.FlagSet) Chosen {
	chosen := Chosen{}
	for _, name := range ofKubectl {
		value := flags.Lookup(name).Value
		values := []string{value.String()}
		if list, ok := value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		if len(values) > 0 && values[0] != "" && values[0] != "false" {
			chosen[name] = values
		}
	}
	return chosen
}

// flags returns the flags with these names, as arguments after a space.
func (c Chosen) flags(names []string) string {
	var b strings.Builder
	for _, name := range names {
		for _, value := range c[name] {
			separator := map[bool]string{true: "=", false: " "}[value == "true"] // a boolean needs the equals sign
			b.WriteString(" --" + name + separator + text.ShellQuote(value))
		}
	}
	return b.String()
}

// Command is a shell command that users copy, with marks where flags choose the cluster. Empty is no command. Join commands with
// the shell's operators.
type Command string

// The marks are characters that no argument of a program can have.
const kubectlMark, grantingMark, helmMark = "\x00k", "\x00g", "\x00h"

// Kubectl returns a call of kubectl.
func Kubectl(args ...string) Command { return Command("kubectl" + kubectlMark).With(args...) }

// Granting is Kubectl as the user who impersonates another.
func Granting(args ...string) Command { return Command("kubectl" + grantingMark).With(args...) }

// Plugin returns a call of a subcommand of this program as kubectl's plugin.
func Plugin(subcommand string, args ...string) Command {
	return Command("kubectl plimsoll " + subcommand + kubectlMark).With(args...)
}

// Helm returns a call of Helm.
func Helm(args ...string) Command { return Command("helm" + helmMark).With(args...) }

// Call returns a call of a program that does not choose a cluster.
func Call(program string, args ...string) Command { return Command(program).With(args...) }

// With adds arguments to the last call. Of --flag=VALUE and jsonpath=VALUE only the value is quoted, as users write it.
func (c Command) With(args ...string) Command {
	for _, arg := range args {
		arg = strings.ReplaceAll(arg, "\x00", "")
		quoted := text.ShellQuote(arg)
		if name, value, found := strings.Cut(arg, "="); found && (strings.HasPrefix(name, "--") || name == "jsonpath") {
			quoted = text.ShellQuote(name) + "=" + text.ShellQuote(value)
		}
		c += Command(" " + quoted)
	}
	return c
}

// Into writes the output of the last call to the file.
func (c Command) Into(file string) Command { return c + Command(" > "+text.ShellQuote(file)) }

// For returns the command as text, with the flags that choose the cluster. Helm's are the common ones.
func (c Command) For(chosen Chosen) string {
	withoutUser := chosen.flags(ofKubectl[:10]) // a user who lacks a permission cannot grant it
	ofHelm := strings.NewReplacer(" --context ", " --kube-context ", " --as ", " --kube-as-user ")
	helm := ofHelm.Replace(chosen.flags([]string{"kubeconfig", "context", "as"}))
	return strings.NewReplacer(kubectlMark, chosen.flags(ofKubectl), grantingMark, withoutUser, helmMark, helm).Replace(string(c))
}

// flagsWith returns the flags that have a value, as arguments.
func flagsWith(all ...[2]string) (args []string) {
	for _, flag := range all {
		if flag[1] != "" {
			args = append(args, flag[0], flag[1])
		}
	}
	return args
}

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
	to := "--user=" + user
	if subject := Subject(user); subject.Kind == rbacv1.ServiceAccountKind {
		to = "--serviceaccount=" + subject.Namespace + ":" + subject.Name
	}
	return create + " && " + Granting(in...).With(kind+"binding", name, "--"+kind+"="+name, to)
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
	for i, p := range needed {
		resource, subresource, _ := strings.Cut(p.Resource, "/")
		group.Go(func() error {
			for _, verb := range p.Verbs {
				review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
					Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
						Group: p.Group, Resource: resource, Subresource: subresource, Namespace: p.Namespace, Name: p.Name, Verb: verb,
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
	var missing []Permission
	for i, p := range needed {
		if p.Verbs = denied[i]; len(p.Verbs) > 0 {
			missing = append(missing, p)
		}
	}
	return missing, nil
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

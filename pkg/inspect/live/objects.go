package live

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"strings"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

const (
	// pageObjects is how many objects are asked for at a time.
	pageObjects = 5000
	// concurrentLists bounds the kinds that are listed at a time.
	concurrentLists = 6
)

// Objects are the objects that the scheduler and the plugins read.
type Objects struct {
	// All are in the order that sim.Options.Objects needs. Pods that have ended are left out, as the scheduler does.
	All []runtime.Object
	// Missing are the kinds that could not be read, whose absence may change decisions.
	Missing []MissingKind
}

// MissingKind is a kind of objects that could not be read.
type MissingKind struct {
	// Group and Resource name the kind as an RBAC rule does.
	Group, Resource string
	Err             error
	// grant is the command that grants the right to list it.
	grant string
}

// Advice says what lets the kind be read. It is empty if nothing does, such as for a kind that the API server does not know.
func (m *MissingKind) Advice() string {
	if !apierrors.IsForbidden(m.Err) {
		return ""
	}
	return m.grant
}

// Note says that the kind is missing, and how to grant access to it.
func (m *MissingKind) Note() string {
	kind := schema.GroupResource{Group: m.Group, Resource: m.Resource}
	note := fmt.Sprintf("Cannot read %s (%v): the scheduler may decide otherwise.", kind, text.ExcerptError(m.Err))
	if advice := m.Advice(); advice != "" {
		note += " To grant access: " + advice
	}
	return note
}

// Grant returns the commands that give the user of the connection a right. The resource may have a subresource.
func (c *Connection) Grant(ctx context.Context, verb, group, resource string) string {
	return grant(subjectFlag(c.User(ctx)), verb, group, resource)
}

// subjectFlag returns the flag of kubectl create clusterrolebinding that names the user.
func subjectFlag(user string) string {
	if account, ok := strings.CutPrefix(user, serviceAccountPrefix); ok {
		return "--serviceaccount=" + ShellQuote(account)
	}
	return "--user=" + ShellQuote(user)
}

// UnknownUser stands for a user whose name is not known.
const UnknownUser = "USER"

// User returns the name of the user that the API server sees; UnknownUser if it does not tell.
func (c *Connection) User(ctx context.Context) string {
	if user := c.KubeConfig.Impersonate.UserName; user != "" {
		return user
	}
	review, err := c.Client.AuthenticationV1().
		SelfSubjectReviews().
		Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return UnknownUser
	}
	return cmp.Or(review.Status.UserInfo.Username, UnknownUser)
}

// Grant returns the commands that give a right to a user whose name is not known. The resource may have a subresource.
func Grant(verb, group, resource string) string {
	return grant(subjectFlag(UnknownUser), verb, group, resource)
}

func grant(to, verb, group, resource string) string {
	first, _, _ := strings.Cut(resource, ",")
	name := "plimsoll-inspect-" + strings.NewReplacer("/", "-").Replace(first)
	resource = ResourceName(group, resource)
	return fmt.Sprintf(
		"kubectl create clusterrole %s --verb=%s --resource=%s, and bind it: kubectl create clusterrolebinding %s --clusterrole=%s %s",
		name,
		verb,
		resource,
		name,
		name,
		to,
	)
}

// ShellQuote returns the text as one word of a shell, in quotes if it has special characters.
func ShellQuote(text string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./_-"
	if text != "" && strings.Trim(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// kind is a kind of objects.
type kind struct {
	schema.GroupVersionKind
	resource string
	// isNew is whether API servers that this program supports may lack the kind.
	isNew bool
}

func (k kind) required() bool {
	return k.Group == "" && (k.resource == "nodes" || k.resource == "pods")
}

// kinds returns the kinds of sim.Kinds.
func kinds() ([]kind, error) {
	var all []kind
	isNew := map[reflect.Type]bool{}
	for _, object := range minor.Kinds() {
		isNew[reflect.TypeOf(object)] = true
	}
	for _, object := range sim.Kinds() {
		gvks, _, err := scheme.Scheme.ObjectKinds(object)
		if err != nil {
			return nil, err
		}
		plural, _ := meta.UnsafeGuessKindToResource(gvks[0])
		all = append(all, kind{gvks[0], plural.Resource, isNew[reflect.TypeOf(object)]})
	}
	return all, nil
}

// Objects lists all objects that the scheduler and the plugins read. It fails if nodes or pods cannot be listed.
func (c *Connection) Objects(ctx context.Context) (*Objects, error) {
	all, err := kinds()
	if err != nil {
		return nil, err
	}
	lists, errs := make([][]runtime.Object, len(all)), make([]error, len(all))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(concurrentLists)
	for i := len(all) - 1; i >= 0; i-- { // pods, of which there are most, first
		group.Go(func() error {
			lists[i], errs[i] = c.list(groupCtx, all[i])
			if all[i].isNew && apierrors.IsNotFound(errs[i]) {
				errs[i] = nil // the API server is older, and so its scheduler
			}
			if errs[i] != nil && (all[i].required() || groupCtx.Err() != nil) {
				return errs[i]
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	objects := &Objects{}
	to := ""
	for i, k := range all {
		objects.All = append(objects.All, lists[i]...)
		if errs[i] == nil {
			continue
		}
		if to == "" {
			to = subjectFlag(c.User(ctx))
		}
		objects.Missing = append(objects.Missing,
			MissingKind{Group: k.Group, Resource: k.resource, Err: errs[i], grant: grant(to, "list", k.Group, k.resource)})
	}
	return objects, nil
}

// list returns all objects of the kind.
func (c *Connection) list(ctx context.Context, k kind) ([]runtime.Object, error) {
	client, err := c.restClient(k.GroupVersion())
	if err != nil {
		return nil, err
	}
	// From the API server's cache, as informers do.
	options := metav1.ListOptions{ResourceVersion: "0"}
	if k.Group == "" && k.resource == "pods" {
		options.FieldSelector = fmt.Sprintf("status.phase!=%s,status.phase!=%s", corev1.PodSucceeded, corev1.PodFailed)
	}
	var objects []runtime.Object
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		list, err := scheme.Scheme.New(k.GroupVersion().WithKind(k.Kind + "List"))
		if err != nil {
			return nil, err
		}
		return list, client.Get().Resource(k.resource).VersionedParams(&options, scheme.ParameterCodec).Do(ctx).Into(list)
	})
	pages.PageSize = pageObjects
	list, _, err := pages.List(ctx, options)
	if err != nil {
		err = fmt.Errorf("list %s: %w", schema.GroupResource{Group: k.Group, Resource: k.resource}, err)
		if apierrors.IsForbidden(err) && k.required() {
			err = fmt.Errorf("%w; without it nothing can be said: %s", err, c.Grant(ctx, "list", k.Group, k.resource))
		}
		return nil, err
	}
	err = meta.EachListItem(list, func(object runtime.Object) error {
		objects = append(objects, object)
		return nil
	})
	return objects, err
}

// restClient returns a client of the API group's version.
func (c *Connection) restClient(version schema.GroupVersion) (*rest.RESTClient, error) {
	cfg := withProtobuf(c.KubeConfig)
	cfg.GroupVersion, cfg.APIPath = &version, "/apis"
	if version.Group == "" {
		cfg.APIPath = "/api"
	}
	cfg.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	return rest.RESTClientForConfigAndClient(cfg, c.http)
}

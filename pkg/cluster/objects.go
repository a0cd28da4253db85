package cluster

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/plimsoll-scheduler/plimsoll/internal/program"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

const (
	concurrentLists = 6
	// UnfinishedPods is the field selector of the pods that have not ended, as the scheduler lists them.
	UnfinishedPods = "status.phase!=" + string(corev1.PodSucceeded) + ",status.phase!=" + string(corev1.PodFailed)
)

// Objects are the objects that the scheduler and the plugins read.
type Objects struct {
	// All are in the order that sim.Options.Objects needs, without pods that have ended, which the scheduler leaves out too.
	All     []runtime.Object
	Missing []MissingKind
}

// MissingKind is a kind of objects that could not be read.
type MissingKind struct {
	// Group and Resource name the kind as an RBAC rule does.
	Group, Resource string
	Err             error
	// Grant is the command that grants the permission to list it; empty if no permission is missing.
	Grant string
}

// Missing returns the kind that could not be listed because of err.
func (c *Connection) Missing(ctx context.Context, group, resource string, err error) MissingKind {
	m := MissingKind{Group: group, Resource: resource, Err: err}
	if apierrors.IsForbidden(err) {
		m.Grant = c.Grant(ctx, "list", group, resource)
	}
	return m
}

// Note says that the kind is missing, and how to grant access to it.
func (m *MissingKind) Note() string {
	kind := schema.GroupResource{Group: m.Group, Resource: m.Resource}
	note := fmt.Sprintf("Cannot read %s (%v): the scheduler may decide otherwise.", kind, text.ExcerptError(m.Err))
	if m.Grant != "" {
		note += " To grant access: " + m.Grant
	}
	return note
}

// UnknownUser replaces an unknown user name in commands.
const UnknownUser = "USER"

// User returns the user name that the API server sees; UnknownUser if it cannot be read.
func (c *Connection) User(ctx context.Context) string {
	if user := c.KubeConfig.Impersonate.UserName; user != "" {
		return user
	}
	reviews := c.Client.AuthenticationV1().SelfSubjectReviews()
	review, err := reviews.Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return UnknownUser
	}
	return cmp.Or(review.Status.UserInfo.Username, UnknownUser)
}

type kind struct {
	schema.GroupVersionKind
	schema.GroupResource
	isNew bool // a supported API server may lack the kind
}

func (k *kind) required() bool { return k.Kind == "Node" || k.Kind == "Pod" }

func kinds() ([]kind, error) {
	var all []kind
	for _, object := range sim.Kinds() {
		gvks, _, err := scheme.Scheme.ObjectKinds(object)
		if err != nil {
			return nil, err
		}
		plural, _ := meta.UnsafeGuessKindToResource(gvks[0])
		isNew := slices.ContainsFunc(minor.Kinds(),
			func(added runtime.Object) bool { return reflect.TypeOf(added) == reflect.TypeOf(object) })
		all = append(all, kind{gvks[0], plural.GroupResource(), isNew})
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
	for i := len(all) - 1; i >= 0; i-- { // pods take longest, so they go first
		group.Go(func() error {
			lists[i], errs[i] = c.list(groupCtx, &all[i])
			if all[i].isNew && apierrors.IsNotFound(errs[i]) {
				errs[i] = nil // the API server is older, and so is its scheduler
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
	for i, k := range all {
		objects.All = append(objects.All, lists[i]...)
		if errs[i] != nil {
			objects.Missing = append(objects.Missing, c.Missing(ctx, k.GroupResource.Group, k.Resource, errs[i]))
		}
	}
	return objects, nil
}

func (c *Connection) list(ctx context.Context, k *kind) ([]runtime.Object, error) {
	if c.held != nil {
		if objects := c.held(k.Kind); objects != nil {
			return objects, nil
		}
	}
	cfg, version := rest.CopyConfig(c.KubeConfig), k.GroupVersion()
	cfg.GroupVersion, cfg.APIPath, cfg.NegotiatedSerializer = &version, "/apis", scheme.Codecs.WithoutConversion()
	if version.Group == "" {
		cfg.APIPath = "/api"
	}
	client, err := rest.RESTClientForConfigAndClient(cfg, c.http)
	if err != nil {
		return nil, err
	}
	// From the API server's cache, as informers do. The cache has no pages.
	options := metav1.ListOptions{ResourceVersion: "0"}
	if k.Kind == "Pod" {
		options.FieldSelector = UnfinishedPods
	}
	list, err := scheme.Scheme.New(k.GroupVersion().WithKind(k.Kind + "List"))
	if err != nil {
		return nil, err
	}
	err = client.Get().UseProtobufAsDefault().Resource(k.Resource).VersionedParams(&options, scheme.ParameterCodec).Do(ctx).Into(list)
	if err != nil {
		err = fmt.Errorf("list %s: %w", k.GroupResource, err)
		if apierrors.IsForbidden(err) && k.required() {
			err = fmt.Errorf("%w; without it nothing can be said: %s", err, c.Grant(ctx, "list", "", k.Resource))
		}
		return nil, err
	}
	var objects []runtime.Object
	err = meta.EachListItem(list, func(object runtime.Object) error {
		objects = append(objects, object)
		return nil
	})
	return objects, err
}

// Informers returns NewInformers of the objects that the scheduler and the plugins read, without starting them. It leaves out
// kinds that an older API server lacks.
func (c *Connection) Informers() (informers.SharedInformerFactory, error) {
	served, err := c.servedKinds()
	if err != nil {
		return nil, err
	}
	factory := NewInformers(c.Client)
	for _, k := range served {
		if _, err := factory.ForResource(k.GroupVersion().WithResource(k.Resource)); err != nil {
			return nil, err
		}
	}
	return factory, nil
}

// NewInformers returns a factory of informers that drop managed fields and leave out pods that have ended.
func NewInformers(client kubernetes.Interface) informers.SharedInformerFactory {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(program.WithoutManagedFields))
	factory.InformerFor(&corev1.Pod{}, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return coreinformers.NewFilteredPodInformer(client, metav1.NamespaceAll, resync,
			cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
			func(options *metav1.ListOptions) { options.FieldSelector = UnfinishedPods })
	})
	return factory
}

// Informed returns the permissions that Informers needs.
func (c *Connection) Informed() (needed []Permission, err error) {
	served, err := c.servedKinds()
	if err != nil {
		return nil, err
	}
	for _, k := range served {
		needed = append(needed, Permission{
			Group: k.GroupResource.Group, Resource: k.Resource, Verbs: []string{"list", "watch"}, Purpose: "simulates the scheduler",
		})
	}
	return needed, nil
}

func (c *Connection) servedKinds() (served []kind, err error) {
	all, err := kinds()
	if err != nil {
		return nil, err
	}
	for _, k := range all {
		if k.isNew { // an older server may lack it
			group, err := c.Client.Discovery().ServerResourcesForGroupVersion(k.GroupVersion().String())
			if err != nil && !apierrors.IsNotFound(err) {
				return nil, fmt.Errorf("ask the API server for %s: %w", k.GroupVersion(), err)
			}
			serves := func(r metav1.APIResource) bool { return r.Name == k.Resource }
			if err != nil || !slices.ContainsFunc(group.APIResources, serves) {
				continue
			}
		}
		served = append(served, k)
	}
	return served, nil
}

// Followed holds running informers of the objects that the scheduler and the plugins read.
type Followed struct {
	informers.SharedInformerFactory
	synced map[reflect.Type]bool
}

// Follow starts Informers, and waits until they have synced. They end with ctx; call Shutdown then. It fails if ctx is done.
func (c *Connection) Follow(ctx context.Context) (*Followed, error) {
	factory, err := c.Informers()
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	return &Followed{factory, factory.WaitForCacheSync(ctx.Done())}, ctx.Err()
}

// Objects returns the objects for sim.Options: all but pods without a node.
func (f *Followed) Objects() []runtime.Object {
	return slices.DeleteFunc(sim.ObjectsOf(f.SharedInformerFactory), IsUnplaced)
}

// IsUnplaced reports whether the object is a pod without a node, which is no part of a simulation.
func IsUnplaced(object runtime.Object) bool {
	pod, ok := object.(*corev1.Pod)
	return ok && pod.Spec.NodeName == ""
}

// OnChange calls change for all present objects, unplaced pods included, and then for each change.
func (f *Followed) OnChange(change func(object runtime.Object, gone bool)) error {
	handler := sim.Handler(change)
	for _, kind := range sim.Kinds() {
		if !f.synced[reflect.TypeOf(kind)] {
			continue
		}
		if _, err := f.InformerFor(kind, nil).AddEventHandler(handler); err != nil {
			return err
		}
	}
	return nil
}

// Origin says which pod another one replaces, and why that one was moved.
type Origin struct {
	Pod  string    `json:"pod"`
	From string    `json:"from"`
	At   time.Time `json:"at"`
	Why  string    `json:"why"`
}

func (o *Origin) String() string {
	return fmt.Sprintf("%s, moved from %s at %s: %s", text.Excerpt(o.Pod), text.Excerpt(o.From), o.At.UTC().Format(time.RFC3339),
		text.Excerpt(o.Why))
}

// ReadOrigins returns the origins of moved pods, by the UID of their replacements. Nil is a program that moves no pods.
type ReadOrigins func(context.Context, kubernetes.Interface) (map[types.UID]*Origin, error)

// Of calls the function, unless it is nil.
func (read ReadOrigins) Of(ctx context.Context, client kubernetes.Interface) (map[types.UID]*Origin, error) {
	if read == nil {
		return nil, nil
	}
	return read(ctx, client)
}

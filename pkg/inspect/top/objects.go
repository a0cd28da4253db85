package top

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

// Objects are the nodes of a cluster and its pods that have not ended. They are watched: after the first list, only
// changes are read.
type Objects struct {
	clock  clock.PassiveClock
	stores []cache.Store
	// began is when the objects were first watched.
	began time.Time

	mu sync.Mutex
	// changed are the objects that changed since they were applied.
	changed map[key]struct{}
	// waits are the pods that wait for a node, by namespace/name.
	waits map[string]*corev1.Pod
	// departures are pods that left their nodes since the objects were watched, in the order of time.
	departures []departure
	// failed is when a list or a watch failed last, and err why.
	failed time.Time
	err    error
}

// watchedKinds are the kinds of the stores.
var watchedKinds = []string{"Node", "Pod"}

// key identifies an object: by its kind, which is its position among the stores, and its key there.
type key struct {
	kind int
	name string
}

// Watch lists the objects, and watches them until ctx is done. It fails if they cannot be listed.
func Watch(ctx context.Context, conn *cluster.Connection, c clock.PassiveClock) (*Objects, error) {
	o := &Objects{clock: c, began: c.Now(), changed: map[key]struct{}{}, waits: map[string]*corev1.Pod{}}
	listing, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	core := conn.Client.CoreV1()
	// failed notes why a list or a watch failed.
	failed := func(verb, resource string, err error) {
		if err == nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			return // it is listed anew
		}
		err = fmt.Errorf("%s %s: %w", verb, resource, err)
		if apierrors.IsForbidden(err) {
			err = fmt.Errorf("%w; grant it: %s", err, conn.Grant(ctx, "list,watch", "", resource))
		}
		o.fail(err)
		stop(err)
	}
	var small cluster.Compactor
	var informers []cache.SharedIndexInformer
	var synced []cache.InformerSynced
	for kind, listWatcher := range []listWatch{
		{newListWatch("nodes", "", &small, failed, core.Nodes().List, core.Nodes().Watch)},
		{newListWatch("pods", cluster.UnfinishedPods, &small, failed, core.Pods("").List, core.Pods("").Watch)},
	} {
		object := [...]runtime.Object{&corev1.Node{}, &corev1.Pod{}}[kind]
		informer := cache.NewSharedIndexInformer(listWatcher, object, 0, cache.Indexers{})
		o.stores, informers = append(o.stores, informer.GetStore()), append(informers, informer)
		change := func(object any) { o.change(kind, object, false) }
		handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: change, UpdateFunc: func(_, object any) { change(object) },
			DeleteFunc: func(object any) {
				o.change(kind, object, true)
				o.depart(object)
			},
		})
		if err := errors.Join(err, informer.SetTransform(small.Compact),
			informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {})); err != nil {
			return nil, err
		}
		synced = append(synced, informer.HasSynced, handler.HasSynced)
	}
	for _, informer := range informers {
		go informer.RunWithContext(ctx)
	}
	if !cache.WaitForCacheSync(listing.Done(), synced...) {
		return nil, context.Cause(listing)
	}
	return o, nil
}

// listWatch makes the reflector list objects first. If a watch cannot start, the reflector retries silently, and treats a timeout
// as its normal end.
type listWatch struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported makes the reflector list first.
func (listWatch) IsWatchListSemanticsUnSupported() bool { return true }

// newListWatch lists and watches what a field selector selects of a resource. It calls failed with each result, because the
// reflector retries some failures without calling its handler.
func newListWatch[L runtime.Object](
	resource, selector string, small *cluster.Compactor, failed func(verb, resource string, err error),
	list func(context.Context, metav1.ListOptions) (L, error),
	follow func(context.Context, metav1.ListOptions) (watch.Interface, error),
) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, l metav1.ListOptions) (runtime.Object, error) {
			l.FieldSelector = selector
			if l.Limit > 0 {
				l.ResourceVersion = "" // else the API server may ignore the limit, and sends all at once
			}
			all, err := list(ctx, l)
			failed("list", resource, err)
			if err != nil {
				return nil, err
			}
			// The reflector transforms objects only once it has all pages.
			return all, meta.EachListItem(all, func(object runtime.Object) error {
				_, err := small.Compact(object)
				return err
			})
		},
		WatchFuncWithContext: func(ctx context.Context, l metav1.ListOptions) (watch.Interface, error) {
			l.FieldSelector = selector
			events, err := follow(ctx, l)
			failed("watch", resource, err)
			return events, err
		},
	}
}

func (o *Objects) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failed, o.err = o.clock.Now(), err
}

func (o *Objects) change(kind int, object any, gone bool) {
	name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
	if err != nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.changed[key{kind, name}] = struct{}{}
	if pod, ok := object.(*corev1.Pod); ok && !gone && pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil {
		o.waits[name] = pod
	} else {
		delete(o.waits, name)
	}
}

// All returns all objects for sim.Options: nodes first, sorted by name. Afterwards call Apply.
func (o *Objects) All() []runtime.Object {
	o.takeChanged()
	return o.list()
}

// list is All for one more scheduler. Call renew before Apply of that one.
func (o *Objects) list() (all []runtime.Object) {
	for kind := range o.stores {
		all = append(all, o.ofKind(kind)...)
	}
	return all
}

// ofKind returns the present objects of a kind, sorted by name.
func (o *Objects) ofKind(kind int) []runtime.Object {
	names := o.stores[kind].ListKeys()
	slices.Sort(names)
	objects := make([]runtime.Object, 0, len(names))
	for _, name := range names {
		if object := get(o.stores[kind], name); object != nil {
			objects = append(objects, object)
		}
	}
	return objects
}

// renew lets the next Apply apply all that a scheduler lacks.
func (o *Objects) renew(s *sim.Scheduler) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for kind, held := range storesOf(s) {
		for _, name := range slices.Concat(held.ListKeys(), o.stores[kind].ListKeys()) {
			if get(held, name) != get(o.stores[kind], name) {
				o.changed[key{kind, name}] = struct{}{}
			}
		}
	}
}

// storesOf returns the scheduler's objects of watchedKinds.
func storesOf(s *sim.Scheduler) []cache.Store {
	core := s.Informers().Core().V1()
	return []cache.Store{core.Nodes().Informer().GetStore(), core.Pods().Informer().GetStore()}
}

// get returns the object; nil if there is none.
func get(from cache.Store, name string) runtime.Object {
	object, exists, err := from.GetByKey(name)
	if err != nil || !exists {
		return nil
	}
	return object.(runtime.Object)
}

// takeChanged returns what has changed since the last call, nodes first.
func (o *Objects) takeChanged() []key {
	o.mu.Lock()
	changed := o.changed
	o.changed = map[key]struct{}{}
	o.mu.Unlock()
	return slices.SortedFunc(maps.Keys(changed), func(a, b key) int { return cmp.Or(a.kind-b.kind, strings.Compare(a.name, b.name)) })
}

// Apply brings the scheduler's objects up to date: it applies what changed since All or the last Apply.
func (o *Objects) Apply(s *sim.Scheduler) error {
	held := storesOf(s)
	var errs []error
	for _, k := range o.takeChanged() {
		errs = append(errs, apply(s, get(held[k.kind], k.name), get(o.stores[k.kind], k.name)))
	}
	return errors.Join(errs...)
}

// apply replaces an object of the scheduler. Either may be nil.
func apply(s *sim.Scheduler, before, now runtime.Object) error {
	switch {
	case before == now:
		return nil
	case before == nil:
		return s.Add(now)
	case now != nil && isSame(before, now):
		return s.Update(now)
	}
	if err := s.Remove(before); err != nil || now == nil {
		return err
	}
	return s.Add(now)
}

// isSame reports whether two objects of one name are the same. A recreated object is another one.
func isSame(before, now runtime.Object) bool {
	a, errA := meta.Accessor(before)
	b, errB := meta.Accessor(now)
	return errA == nil && errB == nil && a.GetUID() == b.GetUID()
}

// retryInterval is a little more than the longest time between two tries of a list or watch that fails.
const retryInterval = time.Minute

// Err returns why objects cannot be watched at present, so that they may be old; nil if they can.
func (o *Objects) Err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.clock.Since(o.failed) > retryInterval {
		return nil
	}
	return o.err
}

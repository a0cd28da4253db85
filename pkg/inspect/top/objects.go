package top

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

	"github.com/plimsoll-scheduler/plimsoll/internal/program"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

// Objects are the nodes of a cluster and its pods that have not ended. They are watched: after the first list, only
// changes are read.
type Objects struct {
	clock  clock.PassiveClock
	stores []cache.Store

	mu sync.Mutex
	// followers get each change. The first one follows for the simulation, and a second one for the simulation that is being opened.
	followers []*sim.Follower
	// waits are the pods that wait for a node, by namespace/name.
	waits map[string]*corev1.Pod
	// failed is when a list or a watch failed last, and err why.
	failed time.Time
	err    error
}

// watchedKinds are the kinds of the stores.
var watchedKinds = []string{"Node", "Pod"}

// Watch lists the objects, and watches them until ctx is done. It fails if they cannot be listed.
func Watch(ctx context.Context, conn *cluster.Connection, c clock.PassiveClock) (*Objects, error) {
	o := &Objects{clock: c, waits: map[string]*corev1.Pod{}}
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
	var informers []cache.SharedIndexInformer
	var synced []cache.InformerSynced
	for i, listWatcher := range []listWatch{
		{newListWatch("nodes", "", failed, core.Nodes().List, core.Nodes().Watch)},
		{newListWatch("pods", cluster.UnfinishedPods, failed, core.Pods("").List, core.Pods("").Watch)},
	} {
		object := [...]runtime.Object{&corev1.Node{}, &corev1.Pod{}}[i]
		watched := cache.NewSharedIndexInformer(listWatcher, object, 0, cache.Indexers{})
		o.stores, informers = append(o.stores, watched.GetStore()), append(informers, watched)
		handler, err := watched.AddEventHandler(sim.Handler(o.change))
		if err := errors.Join(err, watched.SetTransform(program.WithoutManagedFields),
			watched.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {})); err != nil {
			return nil, err
		}
		synced = append(synced, watched.HasSynced, handler.HasSynced)
	}
	for _, watched := range informers {
		go watched.RunWithContext(ctx)
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
	resource, selector string, failed func(verb, resource string, err error),
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
				_, err := program.WithoutManagedFields(object)
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

// change notes the present state of an object, or that it is gone.
func (o *Objects) change(object runtime.Object, gone bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.followers {
		f.Note(object, gone)
	}
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	name := pod.Namespace + "/" + pod.Name
	if !gone && pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil {
		o.waits[name] = pod
		return
	}
	delete(o.waits, name)
}

// follow returns all objects for sim.Options, and a follower of later changes for a simulation of these objects.
func (o *Objects) follow() ([]runtime.Object, *sim.Follower) {
	f := &sim.Follower{}
	o.mu.Lock()
	o.followers = append(o.followers, f)
	o.mu.Unlock()
	var all []runtime.Object
	for kind := range o.stores {
		all = append(all, o.ofKind(kind)...)
	}
	return all, f
}

func (o *Objects) leave(f *sim.Follower) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.followers = slices.DeleteFunc(o.followers, func(other *sim.Follower) bool { return other == f })
}

func (o *Objects) ofKind(kind int) []runtime.Object {
	names := o.stores[kind].ListKeys()
	slices.Sort(names)
	objects := make([]runtime.Object, 0, len(names))
	for _, name := range names {
		if object, exists, err := o.stores[kind].GetByKey(name); exists && err == nil {
			objects = append(objects, object.(runtime.Object))
		}
	}
	return objects
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

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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

// Objects are the nodes of a cluster and its pods that have not ended. They are watched: after the first list, only
// changes are read.
type Objects struct {
	clock       clock.PassiveClock
	nodes, pods cache.Store

	mu sync.Mutex
	// follower gets each change after the first list; nil until then.
	follower *sim.Follower
	// failed is when a list or a watch failed last, and err why.
	failed time.Time
	err    error
}

// listFirst makes informers list objects before they watch them: a watch that cannot start is retried silently.
type listFirst struct{ kubernetes.Interface }

// IsWatchListSemanticsUnSupported is what informers ask their client.
func (listFirst) IsWatchListSemanticsUnSupported() bool { return true }

// Watch lists the objects, and watches them until ctx is done. It fails if they cannot be listed.
func Watch(ctx context.Context, conn *cluster.Connection, c clock.PassiveClock) (*Objects, error) {
	factory := cluster.NewInformers(listFirst{conn.Client})
	nodes, pods := factory.Core().V1().Nodes().Informer(), factory.Core().V1().Pods().Informer()
	o := &Objects{clock: c, nodes: nodes.GetStore(), pods: pods.GetStore()}
	listing, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var synced []cache.InformerSynced
	for resource, informer := range map[string]cache.SharedIndexInformer{"nodes": nodes, "pods": pods} {
		handler, err := informer.AddEventHandler(sim.Handler(o.change))
		failed := func(_ context.Context, _ *cache.Reflector, err error) {
			if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
				return // it is listed anew
			}
			if apierrors.IsForbidden(err) {
				err = fmt.Errorf("%w; grant it: %s", err, conn.Grant(ctx, "list,watch", "", resource))
			}
			o.fail(err)
			stop(err)
		}
		if err := errors.Join(err, informer.SetWatchErrorHandlerWithContext(failed)); err != nil {
			return nil, err
		}
		synced = append(synced, handler.HasSynced)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(listing.Done(), synced...) {
		return nil, context.Cause(listing)
	}
	return o, nil
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
	if o.follower != nil {
		o.follower.Note(object, gone)
	}
}

// follow returns all objects for sim.Options, and a follower of later changes for a simulation of these objects.
func (o *Objects) follow() ([]runtime.Object, *sim.Follower) {
	o.mu.Lock()
	o.follower = &sim.Follower{}
	o.mu.Unlock()
	return slices.Concat(sorted(o.nodes), sorted(o.pods)), o.follower
}

func sorted(store cache.Store) []runtime.Object {
	names := store.ListKeys()
	slices.Sort(names)
	objects := make([]runtime.Object, 0, len(names))
	for _, name := range names {
		if object, exists, err := store.GetByKey(name); exists && err == nil {
			objects = append(objects, object.(runtime.Object))
		}
	}
	return objects
}

// waitingPods returns the pods that wait for a node.
func (o *Objects) waitingPods() (waiting []*corev1.Pod) {
	for _, object := range o.pods.List() {
		if pod := object.(*corev1.Pod); pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil {
			waiting = append(waiting, pod)
		}
	}
	return waiting
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

package command

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/kube"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/plan"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

// World follows a cluster, and simulates it as it is now. Informers add changes from any goroutine. All methods must be called by
// one goroutine at a time.
type World struct {
	// Profile and Plugin name the plugin whose load tells which nodes are hot.
	Profile, Plugin string

	opened   *cluster.Cluster
	cluster  plan.Cluster
	followed *cluster.Followed
	lease    *kube.Lease
	clock    clock.PassiveClock
	// statistics is when statistics of workloads were read.
	statistics time.Time
	follower   sim.Follower
}

var _ plan.World = &World{}

// Follow returns the cluster of a connection. Informers end with ctx; call Close then. The scheduler must elect a leader, because
// its lease tells whether it runs.
func Follow(ctx context.Context, c *cluster.Connection, o cluster.Options) (*World, error) {
	election := o.Configuration.LeaderElection
	if !election.LeaderElect {
		return nil, fmt.Errorf("leaderElection.leaderElect: false in the scheduler's configuration, so nothing shows whether it runs; " +
			"set it to true")
	}
	followed, err := c.Follow(ctx)
	if err != nil {
		return nil, err
	}
	w := &World{followed: followed, clock: o.Clock, lease: &kube.Lease{
		Client: c.Client, Clock: o.Clock, Namespace: election.ResourceNamespace, Name: election.ResourceName,
	}}
	if err := followed.OnChange(w.note); err != nil { // before it reads objects: none may be missed
		return nil, err
	}
	o.Objects, o.IgnoreExtenders, w.cluster.Extenders = followed.Objects(), true, o.Configuration.Extenders
	if w.opened, err = c.Open(ctx, o); err != nil {
		return nil, err
	}
	w.statistics = w.clock.Now()
	names := (&cluster.Configuration{Decoded: o.Configuration}).ProfileNames()
	if w.Profile, w.cluster.Load = w.opened.FirstLoadReader(names); w.cluster.Load == nil {
		return nil, fmt.Errorf("no profile has a plugin that reads load; add one as in docs/configure.md")
	}
	w.Plugin = w.cluster.Load.Name()
	w.cluster.Scheduler, w.cluster.SchedulerNames = w.opened.Scheduler, names
	return w, nil
}

// Close waits until the informers have ended. The context of Follow must be done.
func (w *World) Close() { w.followed.Shutdown() }

// note queues a change for the next refresh or plan.
func (w *World) note(object runtime.Object, gone bool) {
	if gone || !cluster.IsUnplaced(object) {
		w.follower.Note(object, gone)
	}
}

// Refresh reads the load of nodes and pods. It returns what could not be read.
func (w *World) Refresh(ctx context.Context) (notes []string, err error) {
	if err := w.follower.Apply(w.cluster.Scheduler); err != nil {
		return nil, err
	}
	now := w.clock.Now()
	if now.Sub(w.statistics) >= cluster.StatisticsInterval {
		w.opened.Refresh(ctx)
		w.statistics = now
	} else {
		w.opened.RefreshLoad(ctx)
	}
	w.cluster.Usage, notes = usage(ctx, w.opened, w.Profile)
	return notes, nil
}

// Interval is the time between two refreshes, as the scheduler has it.
func (w *World) Interval() time.Duration {
	shortest := time.Duration(0)
	for _, s := range w.opened.Sources() {
		if interval := s.Spec.RefreshInterval.Duration; shortest == 0 || interval > 0 && interval < shortest {
			shortest = interval
		}
	}
	return max(shortest, time.Second)
}

func (w *World) Cluster(context.Context) (plan.Cluster, error) {
	err := w.follower.Apply(w.cluster.Scheduler)
	w.cluster.Now = w.clock.Now()
	setUnplaced(&w.cluster, w.followed.InformerFor(&corev1.Pod{}, nil).GetStore().List())
	return w.cluster, err
}

// setUnplaced adds the pods without a node to the cluster.
func setUnplaced[T any](c *plan.Cluster, objects []T) {
	c.Unplaced = nil
	for _, object := range objects {
		if pod, ok := any(object).(*corev1.Pod); ok && cluster.IsUnplaced(pod) && pod.DeletionTimestamp == nil {
			c.Unplaced = append(c.Unplaced, pod)
		}
	}
}

func (w *World) Pods(namespace string) ([]*corev1.Pod, error) {
	objects, err := w.followed.InformerFor(&corev1.Pod{}, nil).GetIndexer().ByIndex(cache.NamespaceIndex, namespace)
	pods := make([]*corev1.Pod, 0, len(objects))
	for _, object := range objects {
		pods = append(pods, object.(*corev1.Pod))
	}
	return pods, err
}

func (w *World) SchedulerDown(ctx context.Context) (string, error) { return w.lease.Down(ctx) }

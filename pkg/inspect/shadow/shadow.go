// Package shadow decides for the pods of another scheduler without placing any, and counts what would have been different.
package shadow

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate/reading"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

const (
	// SampleInterval is the time between two samples: a pod on a hot node then counts one hot minute.
	SampleInterval = time.Minute
	followedFor    = time.Hour
	// maxFollowed bounds the pods that are followed. The oldest go first.
	maxFollowed = 10_000
	// burst is how long the budget saves up what was not spent.
	burst = time.Minute
)

// Options configure a Shadow.
type Options struct {
	// Scheduler decides. The Shadow fills it with the cluster's objects.
	Scheduler *sim.Scheduler
	// Profile is the schedulerName of the profile that decides.
	Profile string
	// SchedulerNames are the schedulers whose pods are evaluated.
	SchedulerNames []string
	// CPUShare bounds the time spent, as a share of one core.
	CPUShare float64
	Clock    clock.WithTicker
	Tally    *Tally
}

// Shadow evaluates the decisions of other schedulers. It must be used by one goroutine at a time. Use New.
type Shadow struct {
	Options
	reader *reading.Reader
	// budget bounds the time spent, in nanoseconds, to a share of one core.
	budget *rate.Limiter
	// waiting are the pods to evaluate that have no node yet.
	waiting  sets.Set[types.UID]
	followed []*followed
	byUID    map[types.UID]*followed
}

// followed is a pod that both schedulers have a node for.
type followed struct {
	of  Workload
	uid types.UID
	// made is the node that the pod is on, choice that of the profile.
	made, choice string
	// cpuMillis is the expected usage of the pod.
	cpuMillis float64
	until     time.Time
	ended     bool
}

// New returns a Shadow. It fails if no plugin of the profile reads CPU load.
func New(o Options) (*Shadow, error) {
	s := &Shadow{
		Options: o, budget: rate.NewLimiter(rate.Limit(o.CPUShare*float64(time.Second)), int(o.CPUShare*float64(burst))),
		waiting: sets.New[types.UID](), byUID: map[types.UID]*followed{},
	}
	for _, r := range o.Scheduler.LoadReaders(o.Profile) {
		// A quantile is not what hot nodes are told by.
		if m := r.Reader().Model(load.CPU); s.reader == nil && m != nil && m.Config().Fraction == 0 {
			s.reader = r.Reader()
		}
	}
	if s.reader == nil {
		return nil, fmt.Errorf("profile %q: no plugin reads mean CPU load; enable one that does, or write another --profile", o.Profile)
	}
	return s, nil
}

// Put adds or replaces an object of sim.Kinds. A pod that was placed since the last Put is evaluated first.
func (s *Shadow) Put(ctx context.Context, object runtime.Object) error {
	defer s.spend(s.Clock.Now())
	if pod, ok := object.(*corev1.Pod); ok {
		if !slices.Contains(s.SchedulerNames, pod.Spec.SchedulerName) && pod.Spec.NodeName == "" {
			return nil
		}
		if pod.Spec.NodeName == "" {
			s.waiting.Insert(pod.UID)
			return nil
		}
		if s.waiting.Has(pod.UID) {
			s.waiting.Delete(pod.UID)
			s.evaluate(ctx, pod)
		}
	}
	return s.Scheduler.Follow(object, false)
}

// Drop removes an object. A pod that was never placed is unknown, which is no error.
func (s *Shadow) Drop(object runtime.Object) error {
	defer s.spend(s.Clock.Now())
	if pod, ok := object.(*corev1.Pod); ok {
		s.waiting.Delete(pod.UID)
		if f := s.byUID[pod.UID]; f != nil {
			f.ended = true
			delete(s.byUID, pod.UID)
		}
	}
	return s.Scheduler.Follow(object, true)
}

// spend deducts the time since began, which is no less than the processor time of a goroutine.
func (s *Shadow) spend(began time.Time) {
	now := s.Clock.Now()
	spent := now.Sub(began)
	for left := int(spent); left > 0; left -= s.budget.Burst() {
		s.budget.ReserveN(now, min(left, s.budget.Burst()))
	}
	s.Tally.worked(spent)
}

// evaluate decides for a pod that another scheduler has placed. The pod is not in the simulation yet.
func (s *Shadow) evaluate(ctx context.Context, pod *corev1.Pod) {
	of := s.Tally.workloadOf(pod)
	if s.budget.TokensAt(s.Clock.Now()) <= 0 || !s.reader.Model(load.CPU).View(framework.NewCycleState()).Knows(load.CPU) {
		s.Tally.decided(of, Skipped)
		return
	}
	node, err := s.decide(ctx, pod)
	switch {
	case err != nil:
		klog.FromContext(ctx).V(2).Info("Cannot decide for a pod", "pod", klog.KObj(pod), "err", err)
		s.Tally.decided(of, Skipped)
		return
	case node == "":
		s.Tally.decided(of, Nowhere)
		return
	case node == pod.Spec.NodeName:
		s.Tally.decided(of, Same)
	default:
		s.Tally.decided(of, Elsewhere)
	}
	s.follow(&followed{
		of: of, uid: pod.UID, made: pod.Spec.NodeName, choice: node, cpuMillis: s.reader.PodUsage(pod)[load.CPU],
		until: s.Clock.Now().Add(followedFor),
	})
}

// decide returns the node that the profile would have chosen; empty if the pod would have waited.
func (s *Shadow) decide(ctx context.Context, placed *corev1.Pod) (string, error) {
	pod := sim.Recreate(placed)
	pod.Spec.SchedulerName = s.Profile
	attempts, err := sim.Attempt(ctx, pod, s.Scheduler.Decide, nil) // with preemption it would have waited
	if err != nil {
		return "", err
	}
	return attempts[len(attempts)-1].Node, nil
}

func (s *Shadow) follow(f *followed) {
	if len(s.followed) == maxFollowed {
		delete(s.byUID, s.followed[0].uid)
		s.followed = slices.Delete(s.followed, 0, 1)
	}
	s.followed = append(s.followed, f)
	s.byUID[f.uid] = f
}

// Sample counts a minute for each followed pod whose node, or whose choice, is hot. Call it every SampleInterval.
// A minute without fresh load of both nodes is not counted.
func (s *Shadow) Sample(ctx context.Context) error {
	defer s.spend(s.Clock.Now())
	now := s.Clock.Now()
	s.followed = slices.DeleteFunc(s.followed, func(f *followed) bool {
		if over := f.ended || now.After(f.until); !over {
			return false
		}
		delete(s.byUID, f.uid)
		return true
	})
	nodes, err := s.loads(ctx)
	if err != nil {
		return err
	}
	for _, f := range s.followed {
		made, choice, added := nodes(f.made), nodes(f.choice), f.cpuMillis
		if f.made == f.choice {
			added = 0 // it is measured
		}
		if made.State == load.Fresh && choice.State == load.Fresh {
			s.Tally.sampled(f.of, made.Utilization(0) > load.Hot, choice.Utilization(added) > load.Hot)
		}
	}
	return nil
}

// loads returns the CPU load of nodes by name. A node that is not known has no fresh load.
func (s *Shadow) loads(ctx context.Context) (func(node string) estimate.ResourceEstimate, error) {
	infos, err := s.Scheduler.NodeInfos(ctx)
	if err != nil {
		return nil, err
	}
	byName := make(map[string]fwk.NodeInfo, len(infos))
	for _, info := range infos {
		byName[info.Node().Name] = info
	}
	view := s.reader.Model(load.CPU).View(framework.NewCycleState())
	return func(node string) estimate.ResourceEstimate {
		if info := byName[node]; info != nil {
			return view.Resource(info, load.CPU)
		}
		return estimate.ResourceEstimate{State: load.Absent}
	}, nil
}

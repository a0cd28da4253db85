// Package sim runs scheduling decisions without a cluster, on objects that the caller adds. The decisions are those of the
// scheduler's own cache, queue, framework and SchedulePod. The package does no I/O: plugins get a client without a server, and
// preemption evicts no pod.
//
// The same objects, plugins, calls and Options.Rand lead to the same decisions, with two exceptions:
//   - If Parallelism is above 1, the order of goroutines decides which nodes a sample contains.
//   - DefaultPreemption breaks ties at random, and uses the real time for victims without a status.startTime.
//
// Not simulated are extenders, Permit, binding and the feature gate OpportunisticBatching. See PlaceGroup for pod groups.
package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/pkg/minor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
)

// Options configure a Scheduler.
type Options struct {
	// Configuration, with defaults, holds the profiles and percentageOfNodesToScore. The spec.schedulerName of a pod selects its
	// profile. Extenders are refused; the other fields have no effect.
	Configuration *schedulerconfig.KubeSchedulerConfiguration
	// Plugins are the factories of plugins beside the stock ones, by name, such as those of plugins.NewRegistry.
	Plugins frameworkruntime.Registry
	// Objects are added before the plugins are built. See Scheduler.Add.
	Objects []runtime.Object
	// Clock is the clock of the scheduler's queue; nil is the real one. Give the factories of Plugins the same clock.
	Clock clock.WithTicker
	// Rand chooses among the nodes with the highest score. Nil is a generator with a constant seed.
	Rand *rand.Rand
	// Parallelism is the number of nodes that are evaluated at a time; 0 is 1.
	Parallelism int
	// Activated is called, from any goroutine, with pods that a plugin wants to be tried again at once. It may be nil.
	Activated func(pods map[string]*corev1.Pod)
	// KubeConfig is the Handle.KubeConfig of plugins that open connections of their own. It may be nil.
	KubeConfig *rest.Config
}

// Scheduler decides on which nodes pods run. It must be used by one goroutine at a time. Use New.
type Scheduler struct {
	scheduler *scheduler.Scheduler
	cluster   *cluster
	profiles  map[string]*profile
	// snapshot is the one that all profiles share.
	snapshot  *cache.Snapshot
	rand      *rand.Rand
	activated func(pods map[string]*corev1.Pod)
	// sequential says that nodes are filtered one after the other.
	sequential bool

	mu sync.Mutex
	// victims are the victims of the present decision, and displaced the pods that lost their nominations. mu guards only these two.
	victims, displaced []*corev1.Pod
}

type profile struct {
	framework.Framework
	weights map[string]int64
	// explainers are the plugins that show their terms, sorted by name.
	explainers []explain.Explainer
}

// New returns a scheduler. Goroutines that plugins start end with ctx.
func New(ctx context.Context, o Options) (*Scheduler, error) {
	if len(o.Configuration.Extenders) > 0 {
		return nil, errors.New("extenders: they cannot be simulated; remove them to see how the scheduler decides without them")
	}
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "simulation.invalid", Transport: noServer{}, QPS: -1})
	if err != nil {
		return nil, err
	}
	s := &Scheduler{
		cluster: newCluster(client), rand: o.Rand, activated: o.Activated, sequential: o.Parallelism <= 1,
		profiles: map[string]*profile{},
	}
	if s.rand == nil {
		s.rand = rand.New(rand.NewPCG(0, 0))
	}
	if err := s.Add(o.Objects...); err != nil {
		return nil, err
	}
	explainers := map[minor.Handle][]explain.Explainer{}
	options := []scheduler.Option{
		scheduler.WithProfiles(withReplacements(o.Configuration.Profiles)...),
		scheduler.WithPercentageOfNodesToScore(o.Configuration.PercentageOfNodesToScore),
		scheduler.WithFrameworkOutOfTreeRegistry(collecting(explainers, o.Plugins)),
		scheduler.WithParallelism(int32(max(o.Parallelism, 1))),
		scheduler.WithKubeConfig(o.KubeConfig),
	}
	if o.Clock != nil {
		options = append(options, scheduler.WithClock(o.Clock))
	}
	recorder := func(string) minor.EventRecorder { return &events.FakeRecorder{} }
	if s.scheduler, err = scheduler.New(ctx, client, s.cluster, nil, recorder, options...); err != nil {
		return nil, err
	}
	for name, fw := range s.scheduler.Profiles {
		s.snapshot = fw.SnapshotSharedLister().(*cache.Snapshot)
		p := &profile{Framework: fw, weights: map[string]int64{}, explainers: explainers[fw]}
		for _, plugin := range fw.ListPlugins().Score.Enabled {
			p.weights[plugin.Name] = int64(plugin.Weight)
		}
		slices.SortFunc(p.explainers, func(a, b explain.Explainer) int { return strings.Compare(a.Name(), b.Name()) })
		fw.SetPodActivator(s)
		s.simulatePreemption(fw)
		s.profiles[name] = p
	}
	close(s.cluster.synced)
	return s, nil
}

// collecting returns factories that also add Explainers to explainers, by the profile's handle. It adds those of replacements.
func collecting(explainers map[minor.Handle][]explain.Explainer, registry frameworkruntime.Registry) frameworkruntime.Registry {
	all := frameworkruntime.Registry{}
	for name, factory := range registry {
		all[name] = func(ctx context.Context, args runtime.Object, handle minor.Handle) (minor.Plugin, error) {
			pl, err := factory(ctx, args, handle)
			if e, ok := pl.(explain.Explainer); ok {
				explainers[handle] = append(explainers[handle], e)
			}
			return pl, err
		}
	}
	for name, factory := range plugins.Replacements() {
		if all[name] == nil {
			all[name] = factory
		}
	}
	return all
}

type noServer struct{}

func (noServer) RoundTrip(r *http.Request) (*http.Response, error) {
	return nil, fmt.Errorf("%s %s: a simulation has no API server", r.Method, r.URL.Path)
}

func (s *Scheduler) Activate(_ klog.Logger, pods map[string]*corev1.Pod) {
	if s.activated != nil {
		s.activated(pods)
	}
}

func (s *Scheduler) profileFor(pod *corev1.Pod) (*profile, error) {
	if p, ok := s.profiles[pod.Spec.SchedulerName]; ok {
		return p, nil
	}
	names := slices.Sorted(maps.Keys(s.profiles))
	return nil, fmt.Errorf("pod %s: spec.schedulerName: no profile is called %q; the profiles are %s",
		klog.KObj(pod), pod.Spec.SchedulerName, strings.Join(names, ", "))
}

// NodeInfos returns all nodes with their pods, as the scheduler's cache holds them. They are the scheduler's own: they must not be
// changed, and are valid until the next call of any method.
func (s *Scheduler) NodeInfos(ctx context.Context) ([]fwk.NodeInfo, error) {
	if err := s.updateSnapshot(ctx); err != nil {
		return nil, err
	}
	return s.snapshot.List()
}

// NodeInfo returns one node of NodeInfos.
func (s *Scheduler) NodeInfo(ctx context.Context, name string) (fwk.NodeInfo, error) {
	if err := s.updateSnapshot(ctx); err != nil {
		return nil, err
	}
	return s.snapshot.Get(name)
}

func (s *Scheduler) updateSnapshot(ctx context.Context) error {
	return s.scheduler.Cache.UpdateSnapshot(klog.FromContext(ctx), s.snapshot)
}

// Explainers returns the plugins of the named profile that explain themselves, sorted by name.
func (s *Scheduler) Explainers(schedulerName string) []explain.Explainer {
	if p, ok := s.profiles[schedulerName]; ok {
		return p.explainers
	}
	return nil
}

// LoadReaders returns the plugins of the named profile that read load, sorted by LineRank and name.
func (s *Scheduler) LoadReaders(schedulerName string) (readers []explain.LoadReader) {
	for _, e := range s.Explainers(schedulerName) {
		if r, ok := e.(explain.LoadReader); ok {
			readers = append(readers, r)
		}
	}
	rank := func(r explain.LoadReader) int { return cmp.Or(plugins.Find(r.Name()).LineRank, math.MaxInt) }
	slices.SortStableFunc(readers, func(a, b explain.LoadReader) int { return cmp.Compare(rank(a), rank(b)) })
	return readers
}

// FirstLoadReader returns the first of LoadReaders in the first profile with one; nil if no plugin reads load.
func (s *Scheduler) FirstLoadReader(schedulerNames []string) (schedulerName string, r explain.LoadReader) {
	for _, name := range schedulerNames {
		if readers := s.LoadReaders(name); len(readers) > 0 {
			return name, readers[0]
		}
	}
	return "", nil
}

// Assume places the decision's pod on its node, and calls the profile's Reserve plugins. Afterwards Add or Update the bound pod,
// or call Forget.
func (s *Scheduler) Assume(ctx context.Context, d *Result) error {
	if d.Node == "" {
		return fmt.Errorf("pod %s: no node was found for it", klog.KObj(d.Pod))
	}
	p, err := s.profileFor(d.Pod)
	if err != nil {
		return err
	}
	assumed := d.Pod.DeepCopy()
	assumed.Spec.NodeName = d.Node
	if err := s.scheduler.Cache.AssumePod(klog.FromContext(ctx), assumed); err != nil {
		return err
	}
	d.assumed = assumed
	s.scheduler.SchedulingQueue.DeleteNominatedPodIfExists(assumed)
	if status := p.RunReservePluginsReserve(ctx, d.state, assumed, d.Node); !status.IsSuccess() {
		return errors.Join(status.AsError(), s.Forget(ctx, d))
	}
	return nil
}

// Forget undoes Assume of the same decision.
func (s *Scheduler) Forget(ctx context.Context, d *Result) error {
	if d.assumed == nil {
		return fmt.Errorf("pod %s: it is not assumed", klog.KObj(d.Pod))
	}
	p, err := s.profileFor(d.Pod)
	if err != nil {
		return err
	}
	p.RunReservePluginsUnreserve(ctx, d.state, d.assumed, d.Node)
	assumed := d.assumed
	d.assumed = nil
	return s.scheduler.Cache.ForgetPod(klog.FromContext(ctx), assumed)
}

var _ minor.PodActivator = &Scheduler{}

// withReplacements returns the profiles with replacements in the place of stock plugins. A profile that names one stays as it is.
func withReplacements(profiles []schedulerconfig.KubeSchedulerProfile) []schedulerconfig.KubeSchedulerProfile {
	changed := make([]schedulerconfig.KubeSchedulerProfile, len(profiles))
	for i := range profiles {
		profile := profiles[i].DeepCopy()
		for _, d := range plugins.All() {
			if d.Replaces != "" && profile.Plugins != nil && !names(profile, d.Name) {
				rename(profile, d.Replaces, d.Name)
			}
		}
		changed[i] = *profile
	}
	return changed
}

func names(profile *schedulerconfig.KubeSchedulerProfile, plugin string) (found bool) {
	eachPlugin(profile, func(p *schedulerconfig.Plugin) { found = found || p.Name == plugin })
	return found
}

func rename(profile *schedulerconfig.KubeSchedulerProfile, from, to string) {
	eachPlugin(profile, func(p *schedulerconfig.Plugin) {
		if p.Name == from {
			p.Name = to
		}
	})
	for i := range profile.PluginConfig {
		if c := &profile.PluginConfig[i]; c.Name == from {
			c.Name = to
		}
	}
}

// eachPlugin calls visit with each plugin that a profile enables or disables where a replacement works.
func eachPlugin(profile *schedulerconfig.KubeSchedulerProfile, visit func(*schedulerconfig.Plugin)) {
	p := profile.Plugins
	for _, set := range []*schedulerconfig.PluginSet{&p.MultiPoint, &p.PreFilter, &p.Filter, &p.PreScore, &p.Score} {
		for _, listed := range [][]schedulerconfig.Plugin{set.Enabled, set.Disabled} {
			for i := range listed {
				visit(&listed[i])
			}
		}
	}
}

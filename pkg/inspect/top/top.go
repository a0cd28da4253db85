// Package top shows the load of nodes against their load lines, and the pods behind it. The figures are those of a plugin.
package top

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/estimate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/load"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/podusage"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source"
)

// Options choose the plugin that load and lines are shown of.
type Options struct {
	// SchedulerName is the name of the profile. Empty is the first profile with a plugin that reads load.
	SchedulerName string
	// Plugin is the name of a plugin of the profile. Empty is the first that reads load, by rank of its load line or target.
	Plugin string
	// Origins reads which pods were moved.
	Origins cluster.ReadOrigins
}

// Reader looks at nodes as one plugin of one profile does. It uses the scheduler, and so must be used by one goroutine at a time.
type Reader struct {
	scheduler     *sim.Scheduler
	schedulerName string
	plugin        explain.LoadReader
}

// New returns a reader. It fails if no profile has what the options ask for.
func New(s *sim.Scheduler, profiles []schedulerconfig.KubeSchedulerProfile, o Options) (*Reader, error) {
	var names []string
	for _, p := range profiles {
		if names = append(names, p.SchedulerName); o.SchedulerName != "" && o.SchedulerName != p.SchedulerName {
			continue
		}
		readers := s.LoadReaders(p.SchedulerName)
		if o.Plugin != "" {
			readers = slices.DeleteFunc(readers, func(r explain.LoadReader) bool { return r.Name() != o.Plugin })
		}
		if len(readers) > 0 {
			return &Reader{scheduler: s, schedulerName: p.SchedulerName, plugin: readers[0]}, nil
		}
	}
	wanted := cmp.Or(o.Plugin, "a plugin that reads load")
	switch {
	case o.SchedulerName == "":
		return nil, fmt.Errorf("no profile has %s; the profiles are %s", wanted, strings.Join(names, ", "))
	case !slices.Contains(names, o.SchedulerName):
		return nil, fmt.Errorf("no profile is called %q; the profiles are %s", o.SchedulerName, strings.Join(names, ", "))
	}
	return nil, fmt.Errorf("profile %s does not have %s", o.SchedulerName, wanted)
}

// RefreshInterval returns how often the plugin wants load to be read.
func (r *Reader) RefreshInterval() time.Duration {
	return r.plugin.Reader().Request().Trust().RefreshInterval
}

// View says which plugin the figures are of, and when they were taken.
type View struct {
	SchedulerName string `json:"profile"`
	// Plugin is the plugin whose measured and pending load, and whose load line or target, are shown.
	Plugin string    `json:"plugin"`
	Time   time.Time `json:"time"`
	// Unknown are the resources without load on any node. The plugin ignores their load.
	Unknown []string `json:"unknown,omitempty"`
	// Configuration is where the configuration comes from, and Problems are why what is shown may be old or not all. Reader knows
	// neither: its caller sets them.
	Configuration string   `json:"configuration,omitempty"`
	Problems      []string `json:"problems,omitempty"`
}

// Nodes are nodes and their load.
type Nodes struct {
	View
	Nodes []*Row `json:"nodes"`
}

// Row is the load of one node.
type Row struct {
	Name string `json:"name"`
	// AnnotationProblem says why the node's annotation of a load line is not used; empty if there is no problem.
	AnnotationProblem string `json:"annotationProblem,omitempty"`
	// Contested has the target sets that measure the node differently, so that it has no load; nil if none do. Session sets it.
	Contested *source.Contested `json:"contested,omitempty"`
	// Dialect reads the node's load where the dialect of most nodes does not. Session sets it.
	Dialect string `json:"dialect,omitempty"`
	// Replaced says that another node has the address of this one, which has no load; empty otherwise.
	Replaced string `json:"replaced,omitempty"`
	// Pods is the number of pods on the node.
	Pods int `json:"pods"`
	// Profiles are the schedulerNames of the pods, sorted.
	Profiles []string `json:"profiles,omitempty"`
	CPU      Resource `json:"cpu"`
	Memory   Resource `json:"memory"`

	// Labels are those of the node.
	Labels map[string]string `json:"-"`
}

// Resource is the load of one resource of a node. Percentages are of the capacity unless they say otherwise.
type Resource struct {
	// State is Fresh, Expired or Absent. Unless it is Fresh, the requests of the pods replace the load.
	State string `json:"state"`
	// AgeSeconds is how long ago the window of the measurement ended; nil where nothing was measured.
	AgeSeconds *float64 `json:"ageSeconds,omitempty"`
	// MeasuredAt is the end of that window.
	MeasuredAt *time.Time `json:"measuredAt,omitempty"`
	// Window is what is measured over: the mean, or the Quantile unless that is 0.
	Window   string  `json:"window"`
	Quantile float64 `json:"quantile,omitempty"`
	// MeasuredPercent is what was measured last, even if it has expired; nil where nothing was measured.
	MeasuredPercent *float64 `json:"measuredPercent,omitempty"`
	// PendingPercent is the expected usage of pods that the measurement does not cover yet.
	PendingPercent float64 `json:"pendingPercent"`
	// RequestedPercent is what the pods request, of the allocatable.
	RequestedPercent float64 `json:"requestedPercent"`
	// UtilizationPercent is compared with the line or target: measured and pending load, and possibly a deviation or a predicted peak.
	// It is of the allocatable unless State is Fresh.
	UtilizationPercent float64 `json:"utilizationPercent"`
	// LinePercent is the load line; nil where there is none.
	LinePercent *float64 `json:"linePercent,omitempty"`
	// LineAnnotated reports whether the node's own annotation sets the line.
	LineAnnotated bool `json:"lineAnnotated,omitempty"`
	// TargetPercent is the utilization that the plugin prefers; nil where it has none. It is no limit.
	TargetPercent *float64 `json:"targetPercent,omitempty"`
	// AboveLine reports whether the plugin takes the node to be above the line.
	AboveLine bool `json:"aboveLine"`
	// AllocatablePercent is the allocatable, of the capacity.
	AllocatablePercent float64           `json:"allocatablePercent"`
	Requested          resource.Quantity `json:"requested"`
	Allocatable        resource.Quantity `json:"allocatable"`
	Capacity           resource.Quantity `json:"capacity"`
}

// Resources returns the node's resources, by load.Resource.
func (n *Row) Resources() [load.ResourceCount]*Resource {
	return [load.ResourceCount]*Resource{load.CPU: &n.CPU, load.Memory: &n.Memory}
}

// Selection selects nodes.
type Selection struct {
	// Selector selects by labels; nil selects all.
	Selector labels.Selector
	// Names select by name; none selects all.
	Names []string
	// Order sorts what Session returns.
	Order string
}

// Nodes returns the load of the selected nodes, sorted by name. It fails if a node that is named does not exist.
func (r *Reader) Nodes(ctx context.Context, selected Selection) (*Nodes, error) {
	infos, err := r.scheduler.NodeInfos(ctx)
	if err != nil {
		return nil, err
	}
	all := infos
	if len(selected.Names) > 0 {
		if infos, err = named(infos, selected.Names); err != nil {
			return nil, err
		}
	}
	look := r.look()
	nodes := &Nodes{View: look.view(), Nodes: []*Row{}}
	for _, info := range infos {
		if selected.Selector == nil || selected.Selector.Matches(labels.Set(info.Node().Labels)) {
			nodes.Nodes = append(nodes.Nodes, look.node(info))
		}
	}
	slices.SortFunc(nodes.Nodes, byName)
	addReplaced(nodes.Nodes, all)
	return nodes, nil
}

// addReplaced says of rows without load that another of all nodes has the address.
func addReplaced(rows []*Row, all []fwk.NodeInfo) {
	var nodes []*corev1.Node
	for _, info := range all {
		nodes = append(nodes, info.Node())
	}
	absent := load.Absent.String()
	for _, r := range source.NewNodeIndex(nodes).Replaced() {
		for _, row := range rows {
			if row.Name == r.Node && row.CPU.State == absent && row.Memory.State == absent {
				row.Replaced = r.Reason() + "."
			}
		}
	}
}

func named(infos []fwk.NodeInfo, names []string) (found []fwk.NodeInfo, err error) {
	all := make(map[string]fwk.NodeInfo, len(infos))
	for _, info := range infos {
		all[info.Node().Name] = info
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		info, ok := all[name]
		if !ok {
			return nil, apierrors.NewNotFound(corev1.Resource("nodes"), name)
		}
		found = append(found, info)
	}
	return found, nil
}

// look is what a plugin sees at one moment.
type look struct {
	*Reader
	state fwk.CycleState
	now   time.Time
	views [load.ResourceCount]*estimate.View
}

func (r *Reader) look() *look {
	reader := r.plugin.Reader()
	l := &look{Reader: r, state: framework.NewCycleState(), now: reader.Clock().Now()}
	for of := range l.views {
		l.views[of] = reader.Model(load.Resource(of)).View(l.state)
	}
	return l
}

func (l *look) view() View {
	v := View{SchedulerName: l.schedulerName, Plugin: l.plugin.Name(), Time: l.now.UTC()}
	for r, view := range l.views {
		if r := load.Resource(r); !view.Knows(r) {
			v.Unknown = append(v.Unknown, r.String())
		}
	}
	return v
}

func (l *look) node(info fwk.NodeInfo) *Row {
	amountOf := [load.ResourceCount]func(fwk.Resource) int64{fwk.Resource.GetMilliCPU, fwk.Resource.GetMemory}
	capacity := podusage.CapacityOf(info.Node()).Amounts
	n := &Row{Name: info.Node().Name, Pods: len(info.GetPods()), Profiles: profilesOn(info), Labels: info.Node().Labels}
	line, figures := l.plugin.LoadLine(l.state, info), l.plugin.Reader().Figures(l.state, n.Name)
	n.AnnotationProblem = line.AnnotationProblem
	for r, of := range n.Resources() {
		r := load.Resource(r)
		e := &line.Node[r]
		*of = Resource{
			State:              e.State.String(),
			UtilizationPercent: 100 * line.Utilization[r],
			LineAnnotated:      line.Annotated[r] && line.Percent[r] > 0,
			AboveLine:          line.Above[r],
			Requested:          quantity(r, amountOf[r](info.GetRequested())),
			Allocatable:        quantity(r, amountOf[r](info.GetAllocatable())),
			Capacity:           quantity(r, int64(capacity[r])),
		}
		if e.State == load.Fresh {
			of.PendingPercent = percent(e.Pending, e.Base)
		}
		f := &figures[r]
		of.Window, of.Quantile = f.Window.String(), f.Fraction
		if f.State != load.Absent {
			of.MeasuredPercent = new(100 * f.Value)
			of.AgeSeconds, of.MeasuredAt = new(l.now.Sub(f.End).Seconds()), new(f.End.UTC())
		}
		allocatable := of.Allocatable.AsApproximateFloat64()
		of.RequestedPercent = percent(of.Requested.AsApproximateFloat64(), allocatable)
		of.AllocatablePercent = percent(allocatable, of.Capacity.AsApproximateFloat64())
		if line.Percent[r] > 0 {
			of.LinePercent = new(line.Percent[r])
		}
		if line.TargetPercent[r] > 0 {
			of.TargetPercent = new(line.TargetPercent[r])
		}
	}
	return n
}

// maxProfiles bounds the schedulerNames that are shown of a node.
const maxProfiles = 20

// profilesOn returns the schedulerNames of the node's pods, sorted, up to maxProfiles.
func profilesOn(node fwk.NodeInfo) (names []string) {
	last := ""
	for i, pod := range node.GetPods() {
		name := pod.GetPod().Spec.SchedulerName
		if i > 0 && name == last {
			continue // most pods have the same one
		}
		last, name = name, text.Excerpt(name) // the API server does not check it
		if len(names) < maxProfiles && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func percent(amount, of float64) float64 {
	if of <= 0 {
		return 0
	}
	return 100 * amount / of
}

func quantity(r load.Resource, amount int64) resource.Quantity {
	if r == load.CPU {
		return *resource.NewMilliQuantity(amount, resource.DecimalSI)
	}
	return *resource.NewQuantity(amount, resource.BinarySI)
}

package explain

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/manifest"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/output"
	pluginexplain "github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

// Request says what of which cluster is explained.
type Request struct {
	Configuration cluster.ConfigurationOptions
	Source        cluster.SourceOptions
	// Target is an object of the cluster; the zero value if File is set.
	Target Target
	// File holds the pod, or a workload that creates it; - is Stdin.
	File  string
	Stdin io.Reader
	// Namespace is the namespace that the user asked for; empty if none.
	Namespace string
	// SchedulerName, unless empty, is the profile to explain with, in place of the pod's own.
	SchedulerName string
	// Top is the number of candidates to return; 0 returns all.
	Top int
	// Origins reads which pods were moved.
	Origins cluster.ReadOrigins
	// Found is called with the configuration. It must not be nil.
	Found func(*cluster.Configuration)
	// Lend may be nil. Where it does not lend a simulation, a new one is made.
	Lend cluster.Lender
}

// Result is an *Explanation or a *LastDecision.
type Result interface {
	output.Result
	// Print prints the result for people.
	Print(p *terminal.Printer)
	// Fits reports whether some node takes the pod.
	Fits() bool
}

var _, _ Result = &Explanation{}, &LastDecision{}

// run is what Run has read.
type run struct {
	Request
	connection    *cluster.Connection
	configuration *cluster.Configuration
	objects       *cluster.Objects
	// cluster is a kept one; nil to open a new one.
	cluster *cluster.Cluster
	// usages is the measured usage of pods; nil if it is not read yet, or cannot be.
	usages sim.MeasuredUsage
	// groups has the pod group of the pod, if any.
	groups cluster.PodGroups
	// origin is where the pod was moved from; nil if it was not moved.
	origin *cluster.Origin
	notes  []string
}

// Run explains where the scheduler of the cluster would place a pod, or the next pod of a workload.
func Run(ctx context.Context, c *cluster.Connection, r Request) (Result, error) {
	var m *manifest.Manifest
	if r.File != "" { // before anything is read of the cluster
		var err error
		if m, err = r.readFile(c); err != nil {
			return nil, err
		}
	}
	configuration, err := c.ValidConfiguration(ctx, r.Configuration)
	if err != nil {
		return nil, err
	}
	r.Found(configuration)
	if r.Lend != nil && r.Target.Kind.Kind == "Pod" {
		if result, lent, err := r.explainLent(ctx, c, configuration); lent || err != nil {
			return result, err
		}
	}
	objects, err := c.Objects(ctx)
	if err != nil {
		return nil, err
	}
	x := &run{Request: r, connection: c, configuration: configuration, objects: objects}
	if m != nil {
		return x.next(ctx, m)
	}
	object, err := r.Target.get(ctx, c)
	if err != nil {
		return nil, err
	}
	if pod, ok := object.(*corev1.Pod); ok {
		x.readAbout(ctx, pod)
		return x.pod(ctx, pod)
	}
	return x.next(ctx, &manifest.Manifest{Workloads: []*manifest.Workload{workloadOf(object, objects)}})
}

func (r *Request) explainLent(
	ctx context.Context, c *cluster.Connection, configuration *cluster.Configuration,
) (result Result, lent bool, err error) {
	object, err := r.Target.get(ctx, c)
	if err != nil {
		return nil, false, err
	}
	none := func(kind string) []runtime.Object {
		if kind == "Node" || kind == "Pod" {
			return []runtime.Object{}
		}
		return nil
	}
	others, err := c.Holding(none).Objects(ctx)
	if err != nil {
		return nil, false, err
	}
	x := &run{Request: *r, connection: c, configuration: configuration, objects: others}
	pod := object.(*corev1.Pod)
	x.readAbout(ctx, pod)
	var read func(context.Context) sim.MeasuredUsage
	explain := func(cluster *cluster.Cluster) error {
		return cluster.Try(others.All, pod, func() error {
			result, err = x.pod(ctx, pod)
			return err
		})
	}
	lent, err = r.Lend(ctx, configuration, func(cluster *cluster.Cluster) error {
		x.cluster = cluster
		if held := x.held(pod); held != nil {
			read = x.usageReader(cluster, held)
		}
		if read != nil {
			return nil
		}
		return explain(cluster)
	})
	if read == nil || err != nil {
		return result, lent, err
	}
	x.usages = read(ctx) // while others use the simulation
	lent, err = r.Lend(ctx, configuration, func(cluster *cluster.Cluster) error {
		x.cluster = cluster
		return explain(cluster)
	})
	return result, lent, err
}

// readAbout reads what the objects of the cluster do not say of the pod.
func (x *run) readAbout(ctx context.Context, pod *corev1.Pod) {
	origins, err := x.Origins.Of(ctx, x.connection.Client)
	if err != nil {
		x.notes = append(x.notes, fmt.Sprintf("It is unknown whether the pod was moved: %v.", text.ExcerptError(err)))
	}
	x.origin = origins[pod.UID]
	x.groups = x.connection.PodGroups(ctx, x.configuration.Workload, x.objects, []*corev1.Pod{pod})
}

func (x *run) pod(ctx context.Context, pod *corev1.Pod) (Result, error) {
	if held := x.held(pod); held != nil {
		return x.explain(ctx, Options{Pod: held, Top: x.Top, InCluster: true})
	}
	return x.explain(ctx, Options{Pod: pod, Top: x.Top})
}

// held returns the scheduler's pod of the same name; nil if it has none.
func (x *run) held(pod *corev1.Pod) *corev1.Pod {
	if x.cluster != nil {
		held, err := x.cluster.Informers().Core().V1().Pods().Lister().Pods(pod.Namespace).Get(pod.Name)
		if err != nil {
			return nil // the only error is that there is none
		}
		return held
	}
	for _, object := range x.objects.All {
		if held, ok := object.(*corev1.Pod); ok && held.Namespace == pod.Namespace && held.Name == pod.Name {
			return held
		}
	}
	return nil
}

func (x *run) next(ctx context.Context, m *manifest.Manifest) (Result, error) {
	pod, err := x.createPod(ctx, m)
	if err != nil {
		return nil, err
	}
	x.groups = x.connection.PodGroups(ctx, x.configuration.Workload, x.objects, []*corev1.Pod{pod})
	x.groups.Add(m.PodGroups)
	return x.explain(ctx, Options{Pod: pod, Top: x.Top})
}

// tryGroup returns the group of the pod, after its waiting pods were placed together and taken off again; nil if it has none.
func (x *run) tryGroup(ctx context.Context, c *cluster.Cluster, o *Options) (*cluster.PodGroup, error) {
	group := x.groups.Of(o.Pod)
	if group == nil {
		return nil, nil
	}
	members, err := c.Informers().Core().V1().Pods().Lister().Pods(o.Pod.Namespace).List(labels.Everything())
	if err != nil {
		return nil, err
	}
	if !o.InCluster {
		members = append(members, o.Pod)
	}
	x.groups.Count(members)
	members = slices.DeleteFunc(members, func(pod *corev1.Pod) bool {
		return x.groups.Of(pod) != group || !cluster.Waits(pod) || len(pod.Spec.SchedulingGates) > 0
	})
	if group.Incomplete() || len(members) == 0 {
		return group, nil
	}
	slices.SortFunc(members, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	for i, pod := range members {
		members[i] = x.withScheduler(pod).DeepCopy()
		members[i].Status.NominatedNodeName = ""
	}
	placed, err := c.PlaceGroup(ctx, members)
	if err != nil {
		return nil, err
	}
	group.Try(len(placed.Placed), len(placed.Victims))
	return group, placed.Undo(ctx)
}

func (x *run) explain(ctx context.Context, o Options) (*Explanation, error) {
	o.Pod = x.withScheduler(o.Pod)
	if err := checkProfile(x.configuration, o.Pod, x.SchedulerName != ""); err != nil {
		return nil, err
	}
	c := x.cluster
	if c == nil {
		var err error
		c, err = x.connection.Open(ctx, cluster.Options{
			Configuration: x.configuration.Decoded, Workload: x.configuration.Workload, Objects: x.objects.All, Source: x.Source,
		})
		if err != nil {
			return nil, err
		}
		if read := x.usageReader(c, o.Pod); read != nil && o.InCluster {
			x.usages = read(ctx)
		}
	}
	o.Measured = x.usages
	group, err := x.tryGroup(ctx, c, &o)
	if err != nil {
		return nil, err
	}
	if group != nil && group.Missing > 0 && !o.InCluster { // most of its pods may be created later
		x.notes = append(x.notes, fmt.Sprintf("The pod belongs to group %s/%s: what-if -f places all of its pods.",
			group.Namespace, text.Excerpt(group.Name)))
		group = nil
	}
	explanation, err := Explain(ctx, c.Scheduler, o)
	if err != nil {
		return nil, err
	}
	explanation.Configuration, explanation.Replaces = x.configuration.Origin, x.origin
	explanation.Group = group
	explanation.Notes = slices.Concat(explanation.Notes, x.notes, x.notesOn(c, explanation.ExpectedUsage))
	return explanation, nil
}

// withScheduler returns the pod with the scheduler of the request. The simulation holds the original.
func (x *run) withScheduler(pod *corev1.Pod) *corev1.Pod {
	if x.SchedulerName == "" {
		return pod
	}
	pod = pod.DeepCopy()
	pod.Spec.SchedulerName = x.SchedulerName
	return pod
}

// usageReader returns a function that reads the usage of the namespace's pods, while the cluster is used by others. It is nil
// unless the pod has a node, and a profile that reads load.
func (x *run) usageReader(c *cluster.Cluster, pod *corev1.Pod) (read func(context.Context) sim.MeasuredUsage) {
	if pod.Spec.NodeName == "" {
		return nil
	}
	readUsage := c.PodUsageReader([]string{cmp.Or(x.SchedulerName, pod.Spec.SchedulerName)})
	if readUsage == nil {
		return nil
	}
	return func(ctx context.Context) sim.MeasuredUsage {
		usages, err := readUsage(ctx, pod.Namespace)
		if err != nil {
			x.notes = append(x.notes, fmt.Sprintf("Cannot read the usage of pods, so it is estimated: %v.", text.ExcerptError(err)))
		}
		return usages
	}
}

func (r *Request) readFile(c *cluster.Connection) (*manifest.Manifest, error) {
	m, err := manifest.ReadFile(r.File, r.Stdin, c.Namespace)
	if err != nil {
		return nil, cluster.OptionErrorf("--filename: %w", err)
	}
	workloads := m.Workloads
	switch len(workloads) {
	case 0:
		return nil, cluster.OptionErrorf("--filename: %s has a pod for each node, which its controller places; explain one of its pods",
			manifest.Of(m.DaemonSets[0]))
	case 1:
	default:
		return nil, cluster.OptionErrorf("--filename: %s holds %s: explain takes one of them; use what-if for all", r.File,
			text.FirstN(text.Each(workloads, (*manifest.Workload).String)))
	}
	if w := workloads[0]; r.Namespace != "" && r.Namespace != w.Namespace {
		return nil, cluster.OptionErrorf("--namespace: %s, but %s holds %s; leave out one", r.Namespace, r.File, w)
	}
	return m, nil
}

// createPod creates the next pod of the manifest's workload, and adds the objects that it needs.
func (x *run) createPod(ctx context.Context, m *manifest.Manifest) (*corev1.Pod, error) {
	admission, creator := manifest.ReadAdmission(ctx, x.connection, m), manifest.NewCreator(x.objects.All)
	for _, service := range m.Services {
		creator.Add(service)
	}
	creator.NoteIgnored(m)
	pods, _, err := creator.Create(m.Workloads[0], 1, admission)
	if err != nil {
		return nil, err
	}
	x.objects.All = append(creator.Added, x.objects.All...) // pods are the last
	x.notes = append(x.notes, creator.Notes...)
	for i := range admission.Missing {
		x.notes = append(x.notes, admission.Missing[i].Note())
	}
	return pods[0], nil
}

// checkProfile fails if the configuration has no profile for the pod. replaced reports whether --scheduler-name names it.
func checkProfile(c *cluster.Configuration, pod *corev1.Pod, replaced bool) error {
	names := c.ProfileNames()
	switch {
	case slices.Contains(names, pod.Spec.SchedulerName):
		return nil
	case replaced:
		return cluster.OptionErrorf("--scheduler-name: %q, but %s has the profiles %s; write one of them",
			pod.Spec.SchedulerName, c.Origin,
			strings.Join(names, ", "))
	}
	return fmt.Errorf("pod %s/%s: spec.schedulerName is %q, but %s has the profiles %s. Another scheduler places the pod; "+
		"name its configuration with --config or --scheduler, or write --scheduler-name to see where one of these would place it",
		pod.Namespace, pod.Name, pod.Spec.SchedulerName, c.Origin, strings.Join(names, ", "))
}

// notesOn lists what could not be read, so that the scheduler may decide otherwise.
func (x *run) notesOn(c *cluster.Cluster, usages []pluginexplain.ExpectedUsage) (notes []string) {
	usesStatistics := slices.ContainsFunc(usages, func(u pluginexplain.ExpectedUsage) bool { return u.PeakParts != nil })
	notes = c.Problems()
	for _, s := range c.Statistics() {
		if usesStatistics && s.Err == nil && !s.Adopted {
			notes = append(notes, s.Label+": the scheduler reads statistics of workloads every five minutes, and may know others.")
		}
	}
	for _, missing := range x.objects.Missing {
		notes = append(notes, missing.Note())
	}
	return notes
}

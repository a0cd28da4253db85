package explain

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll-scheduler/plimsoll/internal/terminal"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/manifest"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalance/kube"
)

// Request says what of which cluster is explained.
type Request struct {
	Configuration live.ConfigurationOptions
	Source        live.SourceOptions
	// Target is an object of the cluster; the zero value if File is set.
	Target Target
	// File holds the pod, or a workload that creates it; - is Stdin.
	File  string
	Stdin io.Reader
	// Namespace is the namespace that the user asked for; empty if none.
	Namespace string
	// SchedulerName, unless empty, is the profile to explain with, in place of the pod's own.
	SchedulerName string
	// Top is the number of candidates, or of a namespace's pods, to return; 0 returns all.
	Top int
	// Compare names two nodes to compare; or none.
	Compare []string
	// Found is called with the configuration. It must not be nil.
	Found func(*live.Configuration)
	// Progress is called with the share of a namespace's pods that is done, in [0, 1]. It must not be nil.
	Progress func(done float64)
}

// Result is an *Explanation, a *DaemonSetExplanation or a *NamespaceExplanation.
type Result interface {
	// Print prints the result for people.
	Print(p *terminal.Printer)
	// Fits reports whether some node takes each pod.
	Fits() bool
}

// run is what Run has read.
type run struct {
	Request
	connection    *live.Connection
	configuration *live.Configuration
	objects       *live.Objects
}

// Run explains where the scheduler of the cluster would place a pod, or the pods of a workload or namespace.
func Run(ctx context.Context, c *live.Connection, r Request) (Result, error) {
	var m *manifest.Manifest
	if r.File != "" { // before anything is read of the cluster
		var err error
		if m, err = r.readFile(ctx, c); err != nil {
			return nil, err
		}
	}
	configuration, err := c.ValidConfiguration(ctx, r.Configuration)
	if err != nil {
		return nil, err
	}
	r.Found(configuration)
	objects, err := c.Objects(ctx)
	if err != nil {
		return nil, err
	}
	x := &run{r, c, configuration, objects}
	switch {
	case m != nil:
		return x.next(ctx, m)
	case r.Target.Kind.Kind == "Namespace":
		return x.namespace(ctx)
	}
	object, err := r.Target.get(ctx, c, r.Target.Name)
	if err != nil {
		return nil, err
	}
	switch o := object.(type) {
	case *corev1.Pod:
		return x.pod(ctx, o)
	case *appsv1.DaemonSet:
		return x.daemonSet(ctx, o)
	}
	return x.next(ctx, &manifest.Manifest{Workloads: []*manifest.Workload{workloadOf(object, objects)}})
}

// pod explains a pod of the cluster.
func (x *run) pod(ctx context.Context, pod *corev1.Pod) (Result, error) {
	o := Options{Pod: pod, Top: x.Top, Compare: x.Compare}
	for _, known := range podsOf(x.objects, pod.Namespace) {
		if known.Name == pod.Name {
			o.Pod, o.InCluster = known, true
		}
	}
	var notes []string
	origins, err := kube.Origins(ctx, x.connection.Client)
	if err != nil {
		notes = append(notes, fmt.Sprintf("It is unknown whether the pod was moved: %v.", text.ExcerptError(err)))
	}
	explanation, err := x.explain(ctx, o, notes)
	if err != nil {
		return nil, err
	}
	explanation.Replaces = origins[pod.UID]
	return explanation, nil
}

// next explains the next pod of the manifest's workload.
func (x *run) next(ctx context.Context, m *manifest.Manifest) (Result, error) {
	pod, notes, err := createPod(ctx, x.connection, x.objects, m)
	if err != nil {
		return nil, err
	}
	return x.explain(ctx, Options{Pod: pod, Top: x.Top, Compare: x.Compare}, notes)
}

func (x *run) explain(ctx context.Context, o Options, notes []string) (*Explanation, error) {
	o.Pod = x.withScheduler(o.Pod)
	if err := checkProfile(x.configuration, o.Pod, x.SchedulerName != ""); err != nil {
		return nil, err
	}
	cluster, err := x.open(ctx)
	if err != nil {
		return nil, err
	}
	explanation, err := Explain(ctx, cluster.Scheduler, o)
	if err != nil {
		return nil, err
	}
	explanation.Configuration = x.configuration.Origin
	explanation.Notes = slices.Concat(explanation.Notes, notes, notesOn(cluster, x.objects, explanation.ExpectedUsage))
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

func (x *run) open(ctx context.Context) (*live.Cluster, error) {
	return x.connection.Open(ctx, live.Options{Configuration: x.configuration.Decoded, Objects: x.objects.All, Source: x.Source})
}

// readFile reads the file, which holds one workload.
func (r *Request) readFile(ctx context.Context, c *live.Connection) (*manifest.Manifest, error) {
	m, err := manifest.ReadFile(ctx, r.File, r.Stdin, c.Namespace)
	if err != nil {
		return nil, live.OptionErrorf("--filename: %w", err)
	}
	if len(m.Workloads) > 1 {
		var names []string
		for _, w := range m.Workloads {
			names = append(names, w.String())
		}
		return nil, live.OptionErrorf("--filename: %s holds %s: explain takes one of them; use what-if for all", r.File,
			text.FirstN(names))
	}
	if w := m.Workloads[0]; r.Namespace != "" && r.Namespace != w.Namespace {
		return nil, live.OptionErrorf("--namespace: %s, but %s holds %s; leave out one", r.Namespace, r.File, w)
	}
	return m, nil
}

// createPod creates the next pod of the manifest's workload, and adds the objects that it needs.
func createPod(
	ctx context.Context, c *live.Connection, objects *live.Objects, m *manifest.Manifest,
) (pod *corev1.Pod, notes []string, err error) {
	admission, creator := manifest.ReadAdmission(ctx, c, m), manifest.NewCreator(objects.All)
	for _, service := range m.Services {
		creator.Add(service)
	}
	pods, _, err := creator.Create(m.Workloads[0], 1, admission)
	if err != nil {
		return nil, nil, err
	}
	objects.All = append(creator.Added, objects.All...) // pods are the last
	notes = creator.Notes
	for i := range admission.Missing {
		notes = append(notes, admission.Missing[i].Note())
	}
	return pods[0], notes, nil
}

// checkProfile fails if the configuration has no profile for the pod. replaced reports whether --scheduler-name names it.
func checkProfile(c *live.Configuration, pod *corev1.Pod, replaced bool) error {
	names := c.ProfileNames()
	switch {
	case slices.Contains(names, pod.Spec.SchedulerName):
		return nil
	case replaced:
		return live.OptionErrorf("--scheduler-name: %q, but %s has the profiles %s; write one of them", pod.Spec.SchedulerName, c.Origin,
			strings.Join(names, ", "))
	}
	return fmt.Errorf("pod %s/%s: spec.schedulerName is %q, but %s has the profiles %s. Another scheduler places the pod; "+
		"name its configuration with --config or --from, or write --scheduler-name to see where one of these would place it",
		pod.Namespace, pod.Name, pod.Spec.SchedulerName, c.Origin, strings.Join(names, ", "))
}

// notesOn lists what could not be read, so that the scheduler may decide otherwise.
func notesOn(c *live.Cluster, objects *live.Objects, usages []explain.ExpectedUsage) (notes []string) {
	usesStatistics := slices.ContainsFunc(usages, func(u explain.ExpectedUsage) bool { return u.Peak != nil })
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	for _, s := range c.Sources() {
		if s.Err != nil {
			note("Cannot read %s (%v): its measurements are missing.", s.Label, text.ExcerptError(s.Err))
		}
	}
	for _, s := range c.Statistics() {
		switch {
		case !usesStatistics: // another profile's
		case s.Err != nil:
			note("Cannot read %s (%v): usage is predicted without statistics.", s.Label, text.ExcerptError(s.Err))
		case s.HistoryErr != nil:
			note("Cannot read a part of the history of %s (%v).", s.Label, text.ExcerptError(s.HistoryErr))
		default:
			note("%s: statistics of workloads were read now. The scheduler reads them every five minutes, and may know others.", s.Label)
		}
	}
	for _, missing := range objects.Missing {
		notes = append(notes, missing.Note())
	}
	return notes
}

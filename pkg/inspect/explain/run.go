package explain

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/manifest"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins/explain"
)

// Request says which pod of which cluster is explained.
type Request struct {
	Configuration live.ConfigurationOptions
	Source        live.SourceOptions
	// Pod is the name of a pod of the cluster; empty if File is set.
	Pod string
	// File holds the pod, or a workload that creates it; - is Stdin.
	File  string
	Stdin io.Reader
	// Namespace is the namespace that the user asked for; empty if none.
	Namespace string
	// SchedulerName, unless empty, is the profile to explain with, in place of the pod's own.
	SchedulerName string
	// Top is the number of candidates to return; 0 returns all.
	Top int
	// Compare names two nodes to compare; or none.
	Compare []string
	// Found is called with the configuration. It must not be nil.
	Found func(*live.Configuration)
}

// Run explains where the scheduler of the cluster would place the pod.
func Run(ctx context.Context, c *live.Connection, r Request) (*Explanation, error) {
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
	o, notes := Options{Top: r.Top, Compare: r.Compare}, []string(nil)
	if m != nil {
		o.Pod, notes, err = createPod(ctx, c, objects, m)
	} else {
		o.Pod, o.InCluster, err = findPod(ctx, c, objects, r.Pod)
	}
	if err != nil {
		return nil, err
	}
	if r.SchedulerName != "" {
		o.Pod = o.Pod.DeepCopy() // the simulation holds the pod
		o.Pod.Spec.SchedulerName = r.SchedulerName
	}
	if err := checkProfile(configuration, o.Pod, r.SchedulerName != ""); err != nil {
		return nil, err
	}
	cluster, err := c.Open(ctx, live.Options{Configuration: configuration.Decoded, Objects: objects.All, Source: r.Source})
	if err != nil {
		return nil, err
	}
	explanation, err := Explain(ctx, cluster.Scheduler, o)
	if err != nil {
		return nil, err
	}
	explanation.Configuration = configuration.Origin
	explanation.Notes = slices.Concat(explanation.Notes, notes, notesOn(cluster, objects, explanation))
	return explanation, nil
}

// findPod returns the named pod, and whether it is among the scheduler's objects.
func findPod(ctx context.Context, c *live.Connection, objects *live.Objects, name string) (*corev1.Pod, bool, error) {
	for _, object := range objects.All {
		if pod, ok := object.(*corev1.Pod); ok && pod.Namespace == c.Namespace && pod.Name == name {
			return pod, true, nil
		}
	}
	// The scheduler does not read pods that have ended.
	pod, err := c.Client.CoreV1().Pods(c.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		err = fmt.Errorf("pod %s: not found in namespace %s; use -n for another namespace, or -f for a file", name, c.Namespace)
	case err != nil:
		err = fmt.Errorf("pod %s/%s: %w", c.Namespace, name, err)
	}
	return pod, false, err
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
func notesOn(c *live.Cluster, objects *live.Objects, e *Explanation) (notes []string) {
	usesStatistics := slices.ContainsFunc(e.ExpectedUsage, func(u explain.ExpectedUsage) bool { return u.Peak != nil })
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

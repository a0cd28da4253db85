package explain

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/manifest"
	"github.com/plimsoll-scheduler/plimsoll/pkg/plugins"
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
	// Top is the number of candidates to return; 0 returns all.
	Top int
	// Compare names two nodes to compare; or none.
	Compare []string
	// Found is called with the configuration. It may be nil.
	Found func(*live.Configuration)
}

// Run explains where the scheduler of the cluster would place the pod.
func Run(ctx context.Context, c *live.Connection, r Request) (*Result, error) {
	var s *subject
	var err error
	if r.File != "" { // before anything is read of the cluster
		if s, err = r.readFile(ctx, c); err != nil {
			return nil, err
		}
	}
	configuration, err := c.Configuration(ctx, r.Configuration)
	if err != nil {
		return nil, err
	}
	if configuration.Err != nil {
		return nil, fmt.Errorf("configuration of %s: %w", configuration.Origin, configuration.Err)
	}
	if r.Found != nil {
		r.Found(configuration)
	}
	objects, err := c.Objects(ctx)
	if err != nil {
		return nil, err
	}
	if s != nil {
		err = s.createPod(objects)
	} else {
		s, err = findPod(ctx, c, objects, r.Pod)
	}
	if err != nil {
		return nil, err
	}
	if err := checkProfile(configuration, s.pod); err != nil {
		return nil, err
	}
	cluster, err := c.Open(ctx, live.Options{Configuration: configuration.Decoded, Objects: objects.All, Source: r.Source})
	if err != nil {
		return nil, err
	}
	result, err := Explain(ctx, cluster.Scheduler, Options{Pod: s.pod, InCluster: s.inCluster, Top: r.Top, Compare: r.Compare})
	if err != nil {
		return nil, err
	}
	result.Configuration = configuration.Origin
	result.Notes = append(result.Notes, s.notes...)
	result.Notes = append(result.Notes, notesOn(cluster, objects, result)...)
	return result, nil
}

// subject is the pod to explain.
type subject struct {
	pod       *corev1.Pod
	inCluster bool
	notes     []string

	manifest  *manifest.Manifest
	admission *manifest.Admission
}

func findPod(ctx context.Context, c *live.Connection, objects *live.Objects, name string) (*subject, error) {
	for _, object := range objects.All {
		if pod, ok := object.(*corev1.Pod); ok && pod.Namespace == c.Namespace && pod.Name == name {
			return &subject{pod: pod, inCluster: true}, nil
		}
	}
	// The scheduler does not read pods that have ended.
	pod, err := c.Client.CoreV1().Pods(c.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("pod %s: not found in namespace %s; use -n for another namespace, or -f for a file", name, c.Namespace)
	}
	if err != nil {
		return nil, fmt.Errorf("pod %s/%s: %w", c.Namespace, name, err)
	}
	return &subject{pod: pod}, nil
}

// readFile reads the file, and what admission adds to its pods.
func (r *Request) readFile(ctx context.Context, c *live.Connection) (*subject, error) {
	m, err := manifest.ReadFile(ctx, r.File, r.Stdin, c.Namespace)
	if err != nil {
		return nil, live.OptionErrorf("--filename: %w", err)
	}
	if len(m.Workloads) > 1 {
		var names []string
		for _, w := range m.Workloads {
			names = append(names, w.String())
		}
		return nil, live.OptionErrorf(
			"--filename: %s holds %s: explain takes one of them; use what-if for all",
			r.File,
			text.FirstN(names),
		)
	}
	w := m.Workloads[0]
	if r.Namespace != "" && r.Namespace != w.Namespace {
		return nil, live.OptionErrorf("--namespace: %s, but %s holds %s; leave out one", r.Namespace, r.File, w)
	}
	return &subject{manifest: m, admission: manifest.ReadAdmission(ctx, c.Client, m)}, nil
}

// createPod creates the next pod of the file's workload, and adds the objects that it needs.
func (s *subject) createPod(objects *live.Objects) error {
	w := s.manifest.Workloads[0]
	names := map[string]bool{}
	for _, object := range objects.All {
		if pod, ok := object.(*corev1.Pod); ok && pod.Namespace == w.Namespace {
			names[pod.Name] = true
		}
	}
	var claims []*corev1.PersistentVolumeClaim
	for i := 0; s.pod == nil || names[s.pod.Name]; i++ {
		s.pod, claims = w.Pod(i)
	}
	if err := s.admission.Admit(s.pod); err != nil {
		return fmt.Errorf("%s: %w", w, err)
	}
	if node := s.pod.Spec.NodeName; node != "" {
		s.notes = append(
			s.notes,
			fmt.Sprintf("spec.nodeName is %s, which bypasses every scheduler. The pod is explained without it.", node),
		)
		s.pod.Spec.NodeName = ""
	}
	for _, missing := range s.admission.Missing {
		s.notes = append(s.notes, missing.Note())
	}
	for _, claim := range claims {
		addMissing(objects, claim)
	}
	for _, service := range s.manifest.Services {
		addMissing(objects, service)
	}
	switch w.Owner.(type) {
	case *appsv1.ReplicaSet, *appsv1.StatefulSet: // plugins read no others
		addMissing(objects, w.Owner)
	}
	return nil
}

// addMissing adds an object before the pods, unless the cluster has it.
func addMissing(objects *live.Objects, object runtime.Object) {
	same := func(other runtime.Object) bool {
		a, b := object.(metav1.Object), other.(metav1.Object)
		return a.GetName() == b.GetName() && a.GetNamespace() == b.GetNamespace() && reflect.TypeOf(a) == reflect.TypeOf(b)
	}
	if !slices.ContainsFunc(objects.All, same) {
		objects.All = append([]runtime.Object{object}, objects.All...)
	}
}

// checkProfile fails if the configuration has no profile for the pod.
func checkProfile(c *live.Configuration, pod *corev1.Pod) error {
	names := c.ProfileNames()
	if slices.Contains(names, pod.Spec.SchedulerName) {
		return nil
	}
	return fmt.Errorf("pod %s/%s: spec.schedulerName is %q, but %s has the profiles %s. Another scheduler places the pod; "+
		"name its configuration with --config or --from",
		pod.Namespace, pod.Name, pod.Spec.SchedulerName, c.Origin, strings.Join(names, ", "))
}

// notesOn lists what could not be read, so that the scheduler may decide otherwise.
func notesOn(c *live.Cluster, objects *live.Objects, r *Result) (notes []string) {
	usesStatistics := slices.ContainsFunc(r.ExpectedUsage, func(u plugins.PodUsage) bool { return u.Peak != nil })
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

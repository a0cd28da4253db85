package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	componentversion "k8s.io/component-base/version"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/explain"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/manifest"
)

type explainOptions struct {
	cluster *clusterFlags
	output  outputFlags
	file    string
	top     int
	nodes   []string
}

func newExplainCommand() *cobra.Command {
	o := &explainOptions{cluster: newClusterFlags()}
	command := &cobra.Command{
		Use:   "explain (POD | -f FILE)",
		Short: "Say where the scheduler would place a pod now, and why",
		Long: `Says where the scheduler would place a pod now, and why: what the pod is expected to use, which nodes filters ruled out, how the
others score, and which plugin decided. It is the scheduler's own code that decides, with the scheduler's configuration, on the
objects of the cluster and the load of its nodes as they are now. Nothing is written to the cluster.

A pod that has a node is judged as if it had none yet: the node counts neither what the pod requests nor what is pending of it. What
is measured of the node still has what the pod really uses.

A file holds one Pod, or one Deployment, ReplicaSet, StatefulSet or Job, of which the next pod is explained. Its pod gets the API
server's defaults, and the priority, the defaults of LimitRanges and the overhead that the cluster would add. Other admission
plugins and webhooks may change it further; to explain what they make of it, let the API server try it first:
  kubectl create --dry-run=server -o yaml -f pod.yaml | kubectl plimsoll explain -f -

The scheduler decides by what it knows at that moment: load, pods and nodes change, and among nodes of equal totals it takes one at
random.

The exit code is 0 if some node takes the pod, 1 if none does without preemption, and 2 if that could not be found out.`,
		Example: `  # Why is this pod pending, or where it is?
  kubectl plimsoll explain web-5d8c7f9b4-x2x7q -n shop

  # Where would a pod of this manifest go?
  kubectl plimsoll explain -f deployment.yaml

  # Why one node and not the other?
  kubectl plimsoll explain web-5d8c7f9b4-x2x7q --node worker-1 --node worker-2

  # All candidates, for a script
  kubectl plimsoll explain -f pod.yaml --top 0 -o json | jq -r '.candidates[].name'`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	flags := command.Flags()
	o.cluster.addTo(flags)
	o.output.addTo(flags)
	flags.StringVarP(&o.file, "filename", "f", "", "file with the pod, or with a workload that creates it; - is standard input")
	flags.IntVar(&o.top, "top", 5, "number of candidates to show, the best first; 0 shows all")
	flags.StringSliceVar(&o.nodes, "node", nil, "node to compare with another; give two")
	return command
}

func (o *explainOptions) validate(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) > 1:
		return fmt.Errorf("%s: write the name of one pod", strings.Join(args, " "))
	case len(args) == 0 && o.file == "":
		return errors.New("no pod: write the name of a pod of the cluster, or -f FILE")
	case len(args) == 1 && o.file != "":
		return fmt.Errorf("--filename: the pod %s is named too; leave out one", args[0])
	case o.top < 0:
		return fmt.Errorf("--top: %d; write 0 for all candidates, or more", o.top)
	case cmd.Flags().Changed("node") && (len(o.nodes) != 2 || o.nodes[0] == o.nodes[1]):
		return fmt.Errorf("--node: %s; name two different nodes", strings.Join(o.nodes, ", "))
	}
	return o.output.validate()
}

func (o *explainOptions) run(cmd *cobra.Command, args []string) error {
	if err := o.validate(cmd, args); err != nil {
		return usageError{err}
	}
	ctx := cmd.Context()
	connection, err := o.cluster.connect(ctx)
	if err != nil {
		return err
	}
	var workload *podToExplain
	if o.file != "" { // before anything is read of the cluster
		if workload, err = o.readFile(ctx, cmd.InOrStdin(), connection); err != nil {
			return err
		}
	}
	configuration, err := connection.Configuration(ctx, o.cluster.configuration)
	if err != nil {
		return err
	}
	if configuration.Err != nil {
		return fmt.Errorf("configuration of %s: %w", configuration.Origin, configuration.Err)
	}
	warnOfOtherMinor(cmd, componentversion.Get().GitVersion, configuration.Workload)
	objects, err := connection.Objects(ctx)
	if err != nil {
		return err
	}
	if workload != nil {
		err = workload.of(objects)
	} else {
		workload, err = find(ctx, connection, objects, args[0])
	}
	if err != nil {
		return err
	}
	if err := checkProfile(configuration, workload.pod); err != nil {
		return err
	}
	cluster, err := connection.Open(ctx, live.Options{Configuration: configuration.Decoded, Objects: objects.All, Source: o.cluster.source})
	if err != nil {
		return err
	}
	result, err := explain.Explain(ctx, cluster.Scheduler, explain.Options{
		Pod: workload.pod, InCluster: workload.inCluster, Top: o.top, Compare: o.nodes,
	})
	if err != nil {
		return err
	}
	result.Configuration = configuration.Origin
	result.Notes = append(result.Notes, workload.notes...)
	result.Notes = append(result.Notes, notesOn(cluster, objects, result)...)
	if err := o.output.print(cmd.OutOrStdout(), result, func(w io.Writer, s style) error { return writeExplanation(w, s, result) }); err != nil {
		return err
	}
	if len(result.Decision.Nodes) == 0 {
		return errFound
	}
	return nil
}

// podToExplain is the pod, and what is to be known of it.
type podToExplain struct {
	pod       *corev1.Pod
	inCluster bool
	notes     []string

	manifest  *manifest.Manifest
	admission *manifest.Admission
}

// find returns a pod of the cluster.
func find(ctx context.Context, c *live.Connection, objects *live.Objects, name string) (*podToExplain, error) {
	for _, object := range objects.All {
		if pod, ok := object.(*corev1.Pod); ok && pod.Namespace == c.Namespace && pod.Name == name {
			return &podToExplain{pod: pod, inCluster: true}, nil
		}
	}
	// The scheduler does not read pods that have ended.
	pod, err := c.Client.CoreV1().Pods(c.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("pod %s: namespace %s has no such pod; -n names another namespace, and -f a file", name, c.Namespace)
	}
	if err != nil {
		return nil, fmt.Errorf("pod %s/%s: %w", c.Namespace, name, err)
	}
	return &podToExplain{pod: pod}, nil
}

// readFile reads the file that -f names, and what the API server would add to its pods.
func (o *explainOptions) readFile(ctx context.Context, stdin io.Reader, c *live.Connection) (*podToExplain, error) {
	m, err := manifest.ReadFile(ctx, o.file, stdin, c.Namespace)
	if err != nil {
		return nil, usageError{fmt.Errorf("--filename: %w", err)}
	}
	if len(m.Workloads) > 1 {
		var names []string
		for _, w := range m.Workloads {
			names = append(names, w.String())
		}
		return nil, usageError{fmt.Errorf("--filename: %s holds %s: explain takes one of them; for all, see what-if", o.file, text.FirstN(names))}
	}
	w := m.Workloads[0]
	if given := o.cluster.kube.Namespace; given != nil && *given != "" && *given != w.Namespace {
		return nil, usageError{fmt.Errorf("--namespace: %s, but %s holds %s; leave out one", *given, o.file, w)}
	}
	return &podToExplain{manifest: m, admission: manifest.ReadAdmission(ctx, c.Client, m)}, nil
}

// of makes the next pod of the file's workload, beside the objects of the cluster, and adds to them what comes with the pod.
func (p *podToExplain) of(objects *live.Objects) error {
	w := p.manifest.Workloads[0]
	names := map[string]bool{}
	for _, object := range objects.All {
		if pod, ok := object.(*corev1.Pod); ok && pod.Namespace == w.Namespace {
			names[pod.Name] = true
		}
	}
	var claims []*corev1.PersistentVolumeClaim
	for i := 0; p.pod == nil || names[p.pod.Name]; i++ {
		p.pod, claims = w.Pod(i)
	}
	if err := p.admission.Admit(p.pod); err != nil {
		return fmt.Errorf("%s: %w", w, err)
	}
	if p.pod.Spec.NodeName != "" {
		p.notes = append(p.notes, fmt.Sprintf("spec.nodeName is %s: such a pod goes there without any scheduler. It is explained as if it had no node.", p.pod.Spec.NodeName))
		p.pod.Spec.NodeName = ""
	}
	for _, missing := range p.admission.Missing {
		p.notes = append(p.notes, missingNote(missing))
	}
	for _, claim := range claims {
		add(objects, claim)
	}
	for _, service := range p.manifest.Services {
		add(objects, service)
	}
	switch w.Owner.(type) {
	case *appsv1.ReplicaSet, *appsv1.StatefulSet: // no plugin reads others
		add(objects, w.Owner)
	}
	return nil
}

// add adds an object that plugins read before the pods, unless the cluster has it.
func add(objects *live.Objects, object runtime.Object) {
	same := func(other runtime.Object) bool {
		a, b := object.(metav1.Object), other.(metav1.Object)
		return a.GetName() == b.GetName() && a.GetNamespace() == b.GetNamespace() && reflect.TypeOf(a) == reflect.TypeOf(b)
	}
	if !slices.ContainsFunc(objects.All, same) {
		objects.All = append([]runtime.Object{object}, objects.All...)
	}
}

// checkProfile expects that the configuration has a profile for the pod.
func checkProfile(c *live.Configuration, pod *corev1.Pod) error {
	var names []string
	for _, profile := range c.Decoded.Profiles {
		names = append(names, profile.SchedulerName)
	}
	if slices.Contains(names, pod.Spec.SchedulerName) {
		return nil
	}
	return fmt.Errorf("pod %s/%s: spec.schedulerName is %q, which no profile of %s has: it has %s. Another scheduler places the pod; --config and --from name its configuration",
		pod.Namespace, pod.Name, pod.Spec.SchedulerName, c.Origin, strings.Join(names, ", "))
}

// notesOn says what could not be read, so that the scheduler may decide otherwise.
func notesOn(c *live.Cluster, objects *live.Objects, r *explain.Result) (notes []string) {
	usesStatistics := slices.ContainsFunc(r.ExpectedUsage, func(u explain.PodUsage) bool { return u.PeakParts != nil })
	for _, s := range c.Sources() {
		if s.Err != nil {
			notes = append(notes, fmt.Sprintf("%s could not be read (%s): nodes are judged without what it measures.", s.Label, text.Excerpt(s.Err.Error())))
		}
	}
	for _, s := range c.Statistics() {
		switch {
		case !usesStatistics: // another profile's
		case s.Err != nil:
			notes = append(notes, fmt.Sprintf("%s could not be read (%s): pods are judged without statistics.", s.Label, text.Excerpt(s.Err.Error())))
		case s.HistoryErr != nil:
			notes = append(notes, fmt.Sprintf("A part of the history of %s could not be read (%s).", s.Label, text.Excerpt(s.HistoryErr.Error())))
		default:
			notes = append(notes, fmt.Sprintf("%s: statistics of workloads were read now. The scheduler reads them every five minutes, and may know others.", s.Label))
		}
	}
	for _, missing := range objects.Missing {
		notes = append(notes, missingNote(missing))
	}
	return notes
}

func missingNote(m live.MissingKind) string {
	name := m.Resource
	if m.Group != "" {
		name += "." + m.Group
	}
	note := fmt.Sprintf("%s could not be read (%s): the scheduler may decide otherwise.", name, text.Excerpt(m.Err.Error()))
	if advice := m.Advice(); advice != "" {
		note += " To read them: " + advice
	}
	return note
}

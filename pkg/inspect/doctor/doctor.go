// Package doctor checks a running cluster for what keeps its scheduler from placing pods by load: mistakes in the configuration, a
// source of load that cannot be read, nodes without load, clocks that differ, rights that are lacking, and pods that no scheduler
// looks at. Each check that is not OK comes with what to do.
package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
)

// Status says how a check ended.
type Status string

const (
	// OK means that nothing was found.
	OK Status = "ok"
	// Warning means that the scheduler works, but not as well as it could, or that something could not be checked.
	Warning Status = "warning"
	// Error means that the scheduler, or a part of what is configured, does not work.
	Error Status = "error"
)

// Check is the result of one check.
type Check struct {
	// Group is a part of the cluster, such as "source", and ID the name of the check, such as "source.tls".
	Group string `json:"group"`
	ID    string `json:"id"`

	Status Status `json:"status"`
	// Message says in one line what was found.
	Message string `json:"message"`
	// Advice is what to do, unless Status is OK. One is enough.
	Advice []Advice `json:"advice,omitempty"`
}

// Advice is something to do.
type Advice struct {
	// Text says in a sentence what to do.
	Text string `json:"text"`
	// Command, for a shell, or YAML does it. Both may be empty.
	Command string `json:"command,omitempty"`
	YAML    string `json:"yaml,omitempty"`
}

// Report is the result of all checks.
type Report struct {
	// Configuration is where the configuration comes from; empty if there is none.
	Configuration string  `json:"configuration,omitempty"`
	Checks        []Check `json:"checks"`
	// Restart is the command that makes the scheduler read a changed configuration; empty if that is not known.
	Restart string `json:"restart,omitempty"`
}

// Found reports whether a check is not OK.
func (r *Report) Found() bool {
	return slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Status != OK })
}

// Options say what is checked.
type Options struct {
	Configuration live.ConfigurationOptions
	Source        live.SourceOptions
}

// Run checks the cluster. It fails if the API server cannot be asked, and with a *live.OptionError if the options are wrong. Whatever else is missing is a check that is not OK.
func Run(ctx context.Context, conn *live.Connection, o Options) (*Report, error) {
	e := &examination{conn: conn, options: o}
	err := o.Source.Validate()
	if err != nil {
		return nil, err
	}
	if e.server, err = askAPIServer(ctx, conn.KubeConfig); err != nil {
		return nil, err
	}
	e.configuration, err = conn.Configuration(ctx, o.Configuration)
	if err != nil {
		if _, ok := asError[*live.OptionError](err); ok || ctx.Err() != nil {
			return nil, err
		}
		e.add(Error, "configuration.found", oneLine(err), Advice{
			Text: "Name the configuration with --config FILE or --from configmap/NAMESPACE/NAME.",
		})
		e.configuration = nil
	}
	e.checkConfiguration()

	objects, err := conn.Objects(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		e.add(Error, "rights.list", oneLine(err), Advice{Text: "Let a user run this who may list nodes and pods, or give this user the right."})
	default:
		e.objects = objectsOf(objects.All)
		e.checkMissing(ctx, objects.Missing)
		if err := e.checkLoad(ctx, objects.All); err != nil {
			return nil, err
		}
	}
	e.checkRights(ctx)
	e.checkScheduler(ctx)
	if e.objects != nil {
		e.checkPods()
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	e.sortChecks()
	return &e.report, nil
}

// examination is what is known so far.
type examination struct {
	conn    *live.Connection
	options Options
	server  apiServer
	// configuration is nil if none was found, and objects nil if they could not be listed.
	configuration *live.Configuration
	objects       *objects
	// metricsFrom are the readers of Prometheus, in which the scheduler's own metrics may be found.
	metricsFrom []seriesReader
	// leading reports whether the scheduler of the configuration works, as far as that is known.
	leading bool
	report  Report
}

// groups are in the order of the report.
func groups() []string {
	return []string{"configuration", "source", "nodes", "time", "values", "rights", "scheduler", "pods"}
}

func (e *examination) sortChecks() {
	order := groups()
	slices.SortStableFunc(e.report.Checks, func(a, b Check) int {
		return slices.Index(order, a.Group) - slices.Index(order, b.Group)
	})
}

func (e *examination) add(status Status, id, message string, advice ...Advice) {
	e.addAll([]Check{newCheck(status, id, message, advice...)})
}

func (e *examination) addAll(checks []Check) { e.report.Checks = append(e.report.Checks, checks...) }

// newCheck returns a check. Its group is the part of the ID before the dot.
func newCheck(status Status, id, message string, advice ...Advice) Check {
	group, _, _ := strings.Cut(id, ".")
	// Whatever others wrote, it does not steer a terminal.
	message = plain(message)
	for i := range advice {
		advice[i].Text = plain(advice[i].Text)
		advice[i].Command, advice[i].YAML = plainLines(advice[i].Command), plainLines(advice[i].YAML)
	}
	return Check{Group: group, ID: id, Status: status, Message: message, Advice: advice}
}

// plain returns the text without what is not printed.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}

// plainLines is plain for a text of several lines.
func plainLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = plain(lines[i])
	}
	return strings.Join(lines, "\n")
}

// objects are those of the cluster that checks look at.
type objects struct {
	nodes    []*corev1.Node
	pods     []*corev1.Pod
	services []*corev1.Service
	// controllers are the ReplicaSets, StatefulSets and ReplicationControllers.
	controllers map[controller]metav1.Object
}

// controller names an object that makes pods.
type controller struct{ kind, namespace, name string }

func objectsOf(all []runtime.Object) *objects {
	o := &objects{controllers: map[controller]metav1.Object{}}
	for _, object := range all {
		switch object := object.(type) {
		case *corev1.Node:
			o.nodes = append(o.nodes, object)
		case *corev1.Pod:
			o.pods = append(o.pods, object)
		case *corev1.Service:
			o.services = append(o.services, object)
		case *appsv1.ReplicaSet:
			o.controllers[controller{"ReplicaSet", object.Namespace, object.Name}] = object
		case *appsv1.StatefulSet:
			o.controllers[controller{"StatefulSet", object.Namespace, object.Name}] = object
		case *corev1.ReplicationController:
			o.controllers[controller{"ReplicationController", object.Namespace, object.Name}] = object
		}
	}
	return o
}

// pod returns the pod of that name, or nil.
func (o *objects) pod(namespace, name string) *corev1.Pod {
	if o == nil {
		return nil
	}
	i := slices.IndexFunc(o.pods, func(p *corev1.Pod) bool { return p.Namespace == namespace && p.Name == name })
	if i < 0 {
		return nil
	}
	return o.pods[i]
}

// oneLine returns the error's text as a message.
func oneLine(err error) string { return strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ") }

// shownDuration rounds a duration as messages show it.
func shownDuration(d time.Duration) string {
	switch {
	case d.Abs() >= 10*time.Second:
		return d.Round(time.Second).String()
	case d.Abs() >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}

// asError is errors.As for a type whose values are errors.
func asError[E error](err error) (E, bool) {
	var e E
	return e, errors.As(err, &e)
}

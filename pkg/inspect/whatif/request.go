package whatif

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/manifest"
	"github.com/plimsoll-scheduler/plimsoll/pkg/sim"
)

// Request is a scenario and the cluster in which it happens.
type Request struct {
	Configuration cluster.ConfigurationOptions
	Source        cluster.SourceOptions
	Scenario      Scenario
	// File holds the pods to place; - is Stdin, and empty is none.
	File  string
	Stdin io.Reader
	// Found is called with the configuration. It must not be nil.
	Found func(*cluster.Configuration)
}

// Report says where the pods of a Request go.
type Report struct {
	Changes []string `json:"changes"`
	// Lost are the evicted pods that nobody recreates.
	Lost []string `json:"lost,omitempty"`
	// Outcomes has one outcome.
	Outcomes []*Outcome `json:"outcomes"`
	Notes    []string   `json:"notes,omitempty"`
	// Top is the number of nodes that are printed; 0 prints all.
	Top int `json:"-"`
}

// HasFindings reports whether pods do not fit or are lost.
func (r *Report) HasFindings() bool {
	return len(r.Lost) > 0 ||
		slices.ContainsFunc(r.Outcomes, func(o *Outcome) bool { return o.Placed < o.Pods || len(o.Lost) > 0 })
}

func (r *Report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// experiment is a Request while it runs, with its Report.
type experiment struct {
	*Request
	*Report
	conn    *cluster.Connection
	objects []runtime.Object
	plan    *Plan
	groups  cluster.PodGroups
}

// Run places the pods of the scenario.
func Run(ctx context.Context, c *cluster.Connection, r Request) (*Report, error) {
	e := &experiment{Request: &r, Report: &Report{}, conn: c}
	if err := e.readFile(ctx); err != nil {
		return nil, err
	}
	first, err := c.ValidConfiguration(ctx, r.Configuration)
	if err != nil {
		return nil, err
	}
	r.Found(first)
	if err := checkProfile(first.ProfileNames(), r.Scenario.SchedulerName); err != nil {
		return nil, err
	}
	if err := e.makePlan(ctx, first.Workload); err != nil {
		return nil, err
	}
	extended, err := e.withStockProfiles(first)
	if err != nil {
		return nil, err
	}
	if err := e.place(ctx, extended); err != nil {
		return nil, err
	}
	e.Notes = append(e.Notes, e.plan.Notes...)
	return e.Report, nil
}

func (e *experiment) readFile(ctx context.Context) error {
	if e.File == "" {
		return nil
	}
	m, err := manifest.ReadFile(e.File, e.Stdin, e.conn.Namespace)
	if err != nil {
		return cluster.OptionErrorf("--filename: %w", err)
	}
	e.Scenario.Manifest, e.Scenario.Admission = m, manifest.ReadAdmission(ctx, e.conn, m)
	e.noteMissing(e.Scenario.Admission.Missing)
	return nil
}

func (e *experiment) noteMissing(kinds []cluster.MissingKind) {
	for i := range kinds {
		e.Notes = append(e.Notes, kinds[i].Note())
	}
}

func (e *experiment) makePlan(ctx context.Context, scheduler *cluster.Workload) error {
	objects, err := e.conn.Objects(ctx)
	if err != nil {
		return err
	}
	e.objects = objects.All
	if e.plan, err = NewPlan(objects.All, e.Scenario); err != nil {
		return cluster.OptionErrorf("%w", err)
	}
	e.Changes, e.Lost = e.plan.Changes, e.plan.Lost
	pods := e.plan.ownPods()
	for _, object := range e.objects { // each may be preempted
		if pod, ok := object.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	e.groups = e.conn.PodGroups(ctx, scheduler, objects, pods)
	e.noteMissing(objects.Missing)
	if e.Scenario.Manifest != nil {
		e.groups.Add(e.Scenario.Manifest.PodGroups)
	}
	return ctx.Err()
}

func (e *experiment) place(ctx context.Context, configuration *cluster.Configuration) error {
	clock := &Clock{}
	cluster, err := e.conn.Open(ctx, cluster.Options{
		Configuration: configuration.Decoded, Workload: configuration.Workload, Objects: e.objects, Source: e.Source, Clock: clock,
	})
	if err != nil {
		return fmt.Errorf("%s: %w", configuration.Origin, err)
	}
	usages := e.usages(ctx, cluster, slices.Concat(e.plan.SchedulerNames(), configuration.ProfileNames()))
	clock.Stop()
	e.Notes = append(e.Notes, cluster.Problems()...)
	out, err := e.plan.Run(ctx, cluster.Scheduler,
		RunOptions{Profiles: configuration.ProfileNames(), Usages: usages, Groups: e.groups})
	if err != nil {
		return err
	}
	out.Configuration = configuration.Origin
	e.Outcomes = append(e.Outcomes, out)
	return nil
}

// usages returns the measured usage of pods; nil if none are evicted, or if it is not measured.
func (e *experiment) usages(ctx context.Context, cluster *cluster.Cluster, schedulerNames []string) sim.MeasuredUsage {
	read := cluster.PodUsageReader(schedulerNames)
	if read == nil || !e.plan.Evicts() {
		return nil
	}
	usages, err := read(ctx, metav1.NamespaceAll)
	if err != nil {
		e.note("Cannot read the usage of evicted pods, so it is estimated: %v", text.ExcerptError(err))
	}
	return usages
}

// checkProfile fails if the name is neither empty nor that of a profile or of the stock scheduler.
func checkProfile(known []string, name string) error {
	if name == "" || name == corev1.DefaultSchedulerName || slices.Contains(known, name) {
		return nil
	}
	return cluster.OptionErrorf("--scheduler-name: %q is no profile of the configuration; write %s, or %s for the stock scheduler",
		name, strings.Join(known, ", "), corev1.DefaultSchedulerName)
}

const stockProfile = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: %q}]
`

// withStockProfiles returns a copy of the configuration, with a stock profile for each scheduler without a profile.
func (e *experiment) withStockProfiles(configuration *cluster.Configuration) (*cluster.Configuration, error) {
	known := configuration.ProfileNames()
	extended := *configuration
	extended.Decoded = configuration.Decoded.DeepCopy()
	for _, name := range e.plan.SchedulerNames() {
		if slices.Contains(known, name) {
			continue
		}
		stock, err := configlint.Decode(fmt.Appendf(nil, stockProfile, name))
		if err != nil {
			return nil, err
		}
		extended.Decoded.Profiles = append(extended.Decoded.Profiles, stock.Profiles[0])
		e.note("The configuration has no profile for the scheduler %q: its pods are placed as the stock scheduler does. "+
			"Choose a profile with --scheduler-name (%s)", name, strings.Join(known, ", "))
	}
	return &extended, nil
}

// Clock is the real clock until it is stopped. A stopped clock keeps load from aging while many pods are placed.
// Timers go on. The zero value is ready.
type Clock struct {
	clock.RealClock
	stopped atomic.Pointer[time.Time]
}

var _ clock.WithTicker = &Clock{}

// Stop makes all later calls of Now return the present time.
func (c *Clock) Stop() { c.stopped.Store(new(c.RealClock.Now())) }

func (c *Clock) Now() time.Time {
	if at := c.stopped.Load(); at != nil {
		return *at
	}
	return c.RealClock.Now()
}

func (c *Clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

package whatif

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/configlint"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/live"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/manifest"
)

// Request says what happens in which cluster.
type Request struct {
	Configuration live.ConfigurationOptions
	Source        live.SourceOptions
	Scenario      Scenario
	// File holds the pods to place; - is Stdin, and empty is none.
	File  string
	Stdin io.Reader
	// ProfileFrom is the file of another configuration to compare with; empty if none.
	ProfileFrom string
	// Found is called with the configuration. It may be nil.
	Found func(*live.Configuration)
	// Progress is called with the fraction that is done. It may be nil.
	Progress func(done float64)
}

// Result is where the pods of a Request go.
type Result struct {
	Changes []string `json:"changes"`
	// Lost are the evicted pods that nobody recreates.
	Lost []string `json:"lost,omitempty"`
	// Outcomes has the outcome of the configuration, then that of ProfileFrom.
	Outcomes []ConfigurationOutcome `json:"outcomes"`
	Notes    []string               `json:"notes,omitempty"`
}

// ConfigurationOutcome is the Outcome of one configuration.
type ConfigurationOutcome struct {
	// Configuration is where the configuration comes from.
	Configuration string `json:"configuration"`
	*Outcome
}

// HasFindings reports whether pods do not fit, or are lost.
func (r *Result) HasFindings() bool {
	return len(r.Lost) > 0 ||
		slices.ContainsFunc(r.Outcomes, func(o ConfigurationOutcome) bool { return o.Placed < o.Pods || len(o.Lost) > 0 })
}

func (r *Result) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// Run places the pods of the scenario.
func Run(ctx context.Context, c *live.Connection, r Request) (*Result, error) {
	result := &Result{}
	if err := r.readFile(ctx, c, result); err != nil {
		return nil, err
	}
	configuration, err := validConfiguration(ctx, c, r.Configuration)
	if err != nil {
		return nil, err
	}
	if r.Found != nil {
		r.Found(configuration)
	}
	var other *live.Configuration
	if r.ProfileFrom != "" {
		if other, err = validConfiguration(ctx, c, live.ConfigurationOptions{File: r.ProfileFrom}); err != nil {
			return nil, live.OptionErrorf("--profile-from: %w", err)
		}
	}
	objects, err := c.Objects(ctx)
	if err != nil {
		return nil, err
	}
	for _, missing := range objects.Missing {
		result.Notes = append(result.Notes, missing.Note())
	}
	plan, err := NewPlan(objects.All, r.Scenario)
	if err != nil {
		return nil, live.OptionErrorf("%w", err)
	}
	result.Changes, result.Lost = plan.Changes, plan.Lost
	if err := r.placeByOwn(ctx, c, result, plan, objects.All, configuration); err != nil {
		return nil, err
	}
	if other != nil {
		if err := r.placeByOther(ctx, c, result, plan, objects.All, other); err != nil {
			return nil, err
		}
	}
	result.Notes = append(result.Notes, plan.Notes...)
	return result, nil
}

// readFile reads the file, and what admission adds to its pods.
func (r *Request) readFile(ctx context.Context, c *live.Connection, result *Result) error {
	if r.File == "" {
		return nil
	}
	m, err := manifest.ReadFile(ctx, r.File, r.Stdin, c.Namespace)
	if err != nil {
		return live.OptionErrorf("--filename: %w", err)
	}
	r.Scenario.Manifest, r.Scenario.Admission = m, manifest.ReadAdmission(ctx, c.Client, m)
	for _, missing := range r.Scenario.Admission.Missing {
		result.Notes = append(result.Notes, missing.Note())
	}
	return nil
}

func validConfiguration(ctx context.Context, c *live.Connection, o live.ConfigurationOptions) (*live.Configuration, error) {
	configuration, err := c.Configuration(ctx, o)
	if err == nil && configuration.Err != nil {
		err = fmt.Errorf("%s: %w", configuration.Origin, configuration.Err)
	}
	return configuration, err
}

// placeByOwn places the pods by the profiles that they name.
func (r *Request) placeByOwn(ctx context.Context, c *live.Connection, result *Result, plan *Plan, objects []runtime.Object,
	configuration *live.Configuration) error {
	complete, err := withStockProfiles(configuration.Decoded, plan.SchedulerNames(), result)
	if err != nil {
		return err
	}
	configuration = &live.Configuration{Origin: configuration.Origin, Decoded: complete}
	return r.place(ctx, c, result, plan, objects, configuration, "")
}

// placeByOther places all pods by one profile of another configuration.
func (r *Request) placeByOther(ctx context.Context, c *live.Connection, result *Result, plan *Plan, objects []runtime.Object,
	other *live.Configuration) error {
	profile, err := otherProfile(other.ProfileNames(), plan.SchedulerNames())
	if err != nil {
		return live.OptionErrorf("--profile-from: %w", err)
	}
	return r.place(ctx, c, result, plan, objects, other, profile)
}

// place runs the plan, and adds the outcome to the result. A profile that is not empty places all pods.
func (r *Request) place(ctx context.Context, c *live.Connection, result *Result, plan *Plan, objects []runtime.Object,
	configuration *live.Configuration, profile string) error {
	clock := &Clock{}
	cluster, err := c.Open(ctx, live.Options{Configuration: configuration.Decoded, Objects: objects, Source: r.Source, Clock: clock})
	if err != nil {
		return fmt.Errorf("%s: %w", configuration.Origin, err)
	}
	var usages PodUsages
	if sources := cluster.Sources(); plan.Evicts() && len(sources) > 0 {
		if usages, err = cluster.PodUsage(ctx, sources[0].Spec); err != nil {
			result.note("Cannot read the usage of evicted pods, so it is estimated: %v", text.ExcerptError(err))
		}
	}
	clock.Stop()
	for _, s := range cluster.Sources() {
		if s.Err != nil {
			result.note("Cannot read %s, so requests count instead: %v", s.Label, text.ExcerptError(s.Err))
		}
	}
	out, err := plan.Run(ctx, cluster.Scheduler, RunOptions{
		SchedulerName: profile, Profiles: configuration.ProfileNames(), Usages: usages, Progress: r.Progress,
	})
	if err != nil {
		return err
	}
	result.Outcomes = append(result.Outcomes, ConfigurationOutcome{Configuration: configuration.Origin, Outcome: out})
	return nil
}

// stockProfile is the stock scheduler's profile of a name.
const stockProfile = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: %q}]
`

// withStockProfiles adds a stock profile for each scheduler without a profile.
func withStockProfiles(
	configuration *schedulerconfig.KubeSchedulerConfiguration,
	schedulers []string,
	result *Result,
) (*schedulerconfig.KubeSchedulerConfiguration, error) {
	known := (&live.Configuration{Decoded: configuration}).ProfileNames()
	for _, name := range schedulers {
		if slices.Contains(known, name) {
			continue
		}
		stock, err := configlint.Decode(fmt.Appendf(nil, stockProfile, name))
		if err != nil {
			return nil, err
		}
		configuration = configuration.DeepCopy()
		configuration.Profiles = append(configuration.Profiles, stock.Profiles[0])
		result.note("The configuration has no profile for the scheduler %q: its pods are placed as the stock scheduler does. "+
			"For pods of a file, choose another with --scheduler-name (%s)", name, strings.Join(known, ", "))
	}
	return configuration, nil
}

// otherProfile returns the only profile, or the one that the pods name.
func otherProfile(profiles, schedulers []string) (string, error) {
	if len(profiles) == 1 {
		return profiles[0], nil
	}
	for _, name := range schedulers {
		if slices.Contains(profiles, name) {
			return name, nil
		}
	}
	return "", fmt.Errorf("none of its profiles (%s) has the schedulerName of the pods (%s): leave one profile in it",
		strings.Join(profiles, ", "), strings.Join(schedulers, ", "))
}

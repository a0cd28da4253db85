package replay

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/internal/httpurl"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/api"
	"github.com/plimsoll-scheduler/plimsoll/pkg/rebalancer/plan"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/engine"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/generate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/history"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/html"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/report"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
)

// Selection holds the flags that select policies and pods.
type Selection struct {
	Configs, Policies []string
	// Rebalancer is the file of a RebalancerConfiguration; empty for the defaults.
	Rebalancer string
	// MovesPerHour adds a policy with each limit to those with a rebalancer.
	MovesPerHour []int
	Costs        engine.MoveCosts
	// Scenario, Traces, Seeds and Nodes select generated pods; Load a file; Prometheus a cluster's history.
	Scenario, Traces string
	Seeds, Nodes     int
	Load             string
	Prometheus       string
	Since            time.Duration
	TokenFile        string
	CAFile           string
	// HTML and Save select the output.
	HTML, Save string
	HashNames  bool
}

// Bounds of flags.
const (
	maxSeeds        = 1000
	maxNodes        = 10_000
	maxMovesPerHour = 10_000
	maxMoveCost     = time.Hour
	allScenarios    = "all"
)

// OptionError is an error in a flag's value.
type OptionError struct {
	Flag string
	Err  error
}

// Error implements error.
func (e *OptionError) Error() string { return "--" + e.Flag + ": " + e.Err.Error() }

func (e *OptionError) Unwrap() error { return e.Err }

func optionErrorf(flag, format string, args ...any) error {
	return &OptionError{flag, fmt.Errorf(format, args...)}
}

// Validate checks the flags. changed reports whether a flag is on the command line.
func (s *Selection) Validate(changed func(flag string) bool) error {
	for flag, value := range map[string]string{
		"load": s.Load, "prometheus": s.Prometheus, "traces": s.Traces, "save": s.Save, "html": s.HTML,
	} {
		if changed(flag) && value == "" {
			return optionErrorf(flag, "empty; write a value or leave the flag out")
		}
	}
	if err := s.checkConflicts(changed); err != nil {
		return err
	}
	switch {
	case s.Seeds < 1 || s.Seeds > maxSeeds:
		return optionErrorf("seeds", "%d; write from 1 to %d", s.Seeds, maxSeeds)
	case s.Nodes < 1 || s.Nodes > maxNodes:
		return optionErrorf("nodes", "%d; write from 1 to %d", s.Nodes, maxNodes)
	case s.HTML != "" && s.Scenario == allScenarios:
		return optionErrorf("html", "a page shows one scenario; choose one with --scenario")
	case s.HashNames && s.Save == "":
		return optionErrorf("hash-names", "requires --save")
	}
	if err := s.validateMoves(); err != nil {
		return err
	}
	return s.validateHistory()
}

func (s *Selection) validateMoves() error {
	invalid := func(most int) bool { return most < 0 || most > maxMovesPerHour }
	if i := slices.IndexFunc(s.MovesPerHour, invalid); i >= 0 {
		return optionErrorf("moves-per-hour", "%d; write numbers from 0 to %d", s.MovesPerHour[i], maxMovesPerHour)
	}
	switch {
	case s.Costs.Termination < input.Tick || s.Costs.Termination > maxMoveCost:
		return optionErrorf("termination", "%v; write from %v to %v", s.Costs.Termination, input.Tick, maxMoveCost)
	case s.Costs.Startup < 0 || s.Costs.Startup > maxMoveCost:
		return optionErrorf("startup", "%v; write from 0s to %v", s.Costs.Startup, maxMoveCost)
	}
	return nil
}

func (s *Selection) validateHistory() error {
	if s.Prometheus == "" {
		return nil
	}
	if s.Since < history.MinSince || s.Since > history.MaxSince {
		return optionErrorf("since", "%v; write from %v to %v", s.Since, history.MinSince, history.MaxSince)
	}
	if httpurl.Parse(s.Prometheus) == nil {
		return optionErrorf("prometheus", "address %q: want an http or https URL, such as http://localhost:9090", s.Prometheus)
	}
	return nil
}

// checkConflicts fails for flags without effect beside others.
func (s *Selection) checkConflicts(changed func(flag string) bool) error {
	for _, rule := range []struct {
		applies bool
		reason  string
		flags   []string
	}{
		{s.Load != "", "--load replays the pods of a file", []string{"prometheus", "scenario", "traces", "seeds", "nodes"}},
		{s.Prometheus != "", "--prometheus replays the history of a cluster", []string{"scenario", "traces", "seeds", "nodes"}},
		{s.Prometheus == "", "--prometheus is not set", []string{"since", "prometheus-token-file", "prometheus-ca-file"}},
		{s.Save != "", "--save replays nothing", []string{
			"config", "policies", "rebalancer-config", "moves-per-hour", "termination", "startup", "output", "html",
		}},
	} {
		for _, flag := range rule.flags {
			if rule.applies && changed(flag) {
				return optionErrorf(flag, "no effect: %s", rule.reason)
			}
		}
	}
	return nil
}

// CheckWritable fails if the page or the saved file cannot be written. It leaves no file behind.
func (s *Selection) CheckWritable() error {
	for flag, file := range map[string]string{"html": s.HTML, "save": s.Save} {
		if file == "" {
			continue
		}
		_, missing := os.Stat(file)
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			return &OptionError{flag, err}
		}
		_ = f.Close() // nothing was written
		if missing != nil {
			_ = os.Remove(file)
		}
	}
	return nil
}

// ReadPolicies returns the policies of --policies and --config.
func (s *Selection) ReadPolicies(ctx context.Context) ([]engine.Policy, error) {
	var configured, policies []engine.Policy
	for _, file := range s.Configs {
		read, err := engine.ReadPolicies(ctx, file)
		if err != nil {
			return nil, &OptionError{"config", err}
		}
		configured = append(configured, read...)
	}
	c, err := plan.ReadConfiguration(ctx, s.Rebalancer)
	if err != nil {
		return nil, &OptionError{"rebalancer-config", err}
	}
	if c.Paused {
		return nil, optionErrorf("rebalancer-config", "%s: paused: true: nothing would move; write false", s.Rebalancer)
	}
	for _, name := range s.Policies {
		p, err := s.policyOf(name, configured, c)
		if err != nil {
			return nil, &OptionError{"policies", err}
		}
		policies = append(policies, p)
		for _, most := range s.MovesPerHour {
			if p.Mover == engine.Rebalance {
				policies = append(policies, p.WithMovesPerHour(most))
			}
		}
	}
	policies = append(policies, configured...)
	if len(policies) == 0 {
		return nil, optionErrorf("policies", "empty; name a policy, or add profiles with --config")
	}
	names := map[string]bool{}
	for _, p := range policies {
		if names[p.Name] {
			return nil, optionErrorf("config", "two policies are named %q: use a different schedulerName in each profile", p.Name)
		}
		names[p.Name] = true
	}
	return policies, nil
}

// policyOf returns a builtin policy. With "+" and a mover, it is a builtin or configured one whose pods move.
func (s *Selection) policyOf(name string, configured []engine.Policy, c *api.Configuration) (engine.Policy, error) {
	at := strings.LastIndex(name, "+")
	if at < 0 {
		return engine.BuiltinPolicy(name)
	}
	var p engine.Policy
	if i := slices.IndexFunc(configured, func(p engine.Policy) bool { return p.Name == name[:at] }); i >= 0 {
		p = configured[i]
	} else {
		var err error
		if p, err = engine.BuiltinPolicy(name[:at]); err != nil {
			return p, err
		}
	}
	if mover := name[at+1:]; mover != engine.Rebalance {
		return p, fmt.Errorf("%q: nothing moves pods by the name of %q; write %s", name, mover, engine.Rebalance)
	}
	return p.WithRebalancer(c, s.Costs), nil
}

// ReadInputs returns a replay without policies for each scenario, file or history. It passes what a history lacks to missing.
func (s *Selection) ReadInputs(ctx context.Context, missing func(string)) ([]Options, error) {
	switch {
	case s.Prometheus != "":
		return s.readHistory(ctx, missing)
	case s.Load != "":
		in, err := input.Load(s.Load)
		if err != nil {
			return nil, &OptionError{"load", err}
		}
		return []Options{{Title: in.Name, Inputs: []*input.Input{in}}}, nil
	}
	return s.generate()
}

func (s *Selection) readHistory(ctx context.Context, missing func(string)) ([]Options, error) {
	const queryTimeout = 2 * time.Minute
	h, err := history.Read(ctx, history.Config{
		Address: s.Prometheus, Since: s.Since, End: time.Now(),
		HTTP: httpclient.Config{BearerTokenFile: s.TokenFile, CAFile: s.CAFile, Timeout: queryTimeout},
	})
	if err != nil {
		return nil, fmt.Errorf("--prometheus: %w", err)
	}
	for _, m := range h.Missing {
		missing(m)
	}
	return []Options{{Title: h.Input.Name, Inputs: []*input.Input{h.Input}}}, nil
}

// ScenarioNames returns the values of --scenario.
func ScenarioNames() []string { return append(generate.ScenarioNames(), allScenarios) }

func (s *Selection) generate() ([]Options, error) {
	scenarios := slices.DeleteFunc(generate.Scenarios(), func(c generate.Scenario) bool {
		return s.Scenario != allScenarios && c.Name != s.Scenario
	})
	if len(scenarios) == 0 {
		return nil, optionErrorf("scenario", "%q; write one of %s", s.Scenario, strings.Join(ScenarioNames(), ", "))
	}
	var days []*generate.Traces
	if s.Traces != "" {
		var err error
		if days, err = generate.ReadTraces(s.Traces); err != nil {
			return nil, &OptionError{"traces", err}
		}
	}
	var all []Options
	for _, scenario := range scenarios {
		o := Options{Title: scenario.Name}
		for seed := uint64(1); seed <= uint64(s.Seeds); seed++ {
			if s.Traces == "" {
				days = []*generate.Traces{generate.Synthetic(seed)}
			}
			for _, traces := range days {
				in, err := generate.Input(traces, scenario, s.Nodes, seed)
				if err != nil {
					return nil, &OptionError{"traces", err}
				}
				o.Inputs = append(o.Inputs, in)
			}
		}
		all = append(all, o)
	}
	return all, nil
}

// SaveInput writes the one selected input to the file of --save.
func (s *Selection) SaveInput(replays []Options) error {
	if len(replays) != 1 || len(replays[0].Inputs) != 1 {
		return optionErrorf("save", "a file holds one day; choose one scenario and seed, and a folder with one file of traces")
	}
	in := replays[0].Inputs[0]
	if s.HashNames {
		in.HashNames()
	}
	return input.Save(s.Save, in)
}

// WriteHTML writes the page, if it is asked for.
func (s *Selection) WriteHTML(r *report.Report) error {
	if s.HTML == "" {
		return nil
	}
	if err := html.WriteFile(s.HTML, r); err != nil {
		return &OptionError{"html", err}
	}
	return nil
}

package replay

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/engine"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/generate"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/history"
	"github.com/plimsoll-scheduler/plimsoll/pkg/replay/input"
	"github.com/plimsoll-scheduler/plimsoll/pkg/source/httpclient"
)

// Selection holds the flags that select policies and pods. All errors are of type cluster.OptionError, unless a server failed.
type Selection struct {
	Configs, Policies []string
	Moves             engine.Moves
	// Scenario, Traces, Seeds and Nodes select generated pods; Load a file; Prometheus a cluster's history.
	Scenario, Traces string
	Consecutive      bool
	Seeds, Nodes     int
	Load             string
	Prometheus       string
	Since            time.Duration
	// The files are of an HTTP client.
	TokenFile, CAFile, HTTPConfigFile string
	// Save is the file to write instead of a replay.
	Save string
}

// Bounds of flags.
const (
	maxSeeds = 1000
	maxNodes = 10_000
)

// Validate checks the flags. changed reports whether a flag is on the command line.
func (s *Selection) Validate(changed func(flag string) bool) error {
	for _, flag := range [][2]string{{"load", s.Load}, {"prometheus", s.Prometheus}, {"traces", s.Traces}, {"save", s.Save}} {
		if changed(flag[0]) && flag[1] == "" {
			return cluster.OptionErrorf("--%s: empty; write a value or leave the flag out", flag[0])
		}
	}
	if err := s.checkConflicts(changed); err != nil {
		return err
	}
	if err := s.checkHistory(); err != nil {
		return err
	}
	switch {
	case s.Seeds < 1 || s.Seeds > maxSeeds:
		return cluster.OptionErrorf("--seeds: %d; write from 1 to %d", s.Seeds, maxSeeds)
	case s.Nodes < 1 || s.Nodes > maxNodes:
		return cluster.OptionErrorf("--nodes: %d; write from 1 to %d", s.Nodes, maxNodes)
	}
	return nil
}

// checkHistory checks the flags that read the history of a cluster.
func (s *Selection) checkHistory() error {
	switch {
	case s.Prometheus == "":
		return nil
	case s.Since < history.MinSince || s.Since > history.MaxSince:
		return cluster.OptionErrorf("--since: %v; write from %v to %v", s.Since, history.MinSince, history.MaxSince)
	case text.HTTPURL(s.Prometheus) == nil:
		return cluster.OptionErrorf("--prometheus: address %q: want an http or https URL, such as http://localhost:9090", s.Prometheus)
	}
	return nil
}

// checkConflicts fails for flags without effect beside others.
func (s *Selection) checkConflicts(changed func(flag string) bool) error {
	ofGenerated := []string{"scenario", "traces", "consecutive", "nodes"}
	ofPolicies := append([]string{"config", "policies", "output"}, s.Moves.Flags()...)
	for _, rule := range []struct {
		applies bool
		reason  string
		flags   []string
	}{
		{s.Load != "", "--load replays the pods of a file", append(slices.Clone(ofGenerated), "prometheus")},
		{s.Prometheus != "", "--prometheus replays the history of a cluster", ofGenerated},
		{s.Traces == "", "--traces is not set", []string{"consecutive"}},
		{s.Prometheus == "", "--prometheus is not set", []string{
			"since", "prometheus-token-file", "prometheus-ca-file", "prometheus-http-config-file",
		}},
		{s.HTTPConfigFile != "", "--prometheus-http-config-file replaces it", []string{"prometheus-token-file", "prometheus-ca-file"}},
		{s.Save != "", "--save replays nothing", ofPolicies},
		{!s.hasMoves(), "no policy of --policies moves pods", s.Moves.Flags()},
	} {
		if i := slices.IndexFunc(rule.flags, changed); rule.applies && i >= 0 {
			return cluster.OptionErrorf("--%s: no effect: %s", rule.flags[i], rule.reason)
		}
	}
	return nil
}

// CheckWritable fails if --save cannot be written. It leaves no file behind.
func (s *Selection) CheckWritable() error {
	if s.Save == "" {
		return nil
	}
	_, missing := os.Stat(s.Save)
	f, err := os.OpenFile(s.Save, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return cluster.OptionErrorf("--save: %w", err)
	}
	_ = f.Close() // nothing was written
	if missing != nil {
		_ = os.Remove(s.Save)
	}
	return nil
}

// ReadPolicies returns the policies of --policies and --config.
func (s *Selection) ReadPolicies() ([]engine.Policy, error) {
	var configured, policies []engine.Policy
	for _, file := range s.Configs {
		read, err := engine.ReadPolicies(file)
		if err != nil {
			return nil, cluster.OptionErrorf("--config: %w", err)
		}
		configured = append(configured, read...)
	}
	if s.hasMoves() {
		if err := s.Moves.Read(); err != nil {
			return nil, cluster.OptionErrorf("%w", err)
		}
	}
	for _, name := range s.Policies {
		named, err := s.policyOf(name, configured)
		if err != nil {
			return nil, cluster.OptionErrorf("--policies: %w", err)
		}
		policies = append(policies, named)
	}
	policies = append(policies, configured...)
	if len(policies) == 0 {
		return nil, cluster.OptionErrorf("--policies: empty; name a policy, or add profiles with --config")
	}
	names := map[string]bool{}
	for _, p := range policies {
		if names[p.Name] {
			return nil, cluster.OptionErrorf("--config: two policies are named %q: use a different schedulerName in each profile", p.Name)
		}
		names[p.Name] = true
	}
	return policies, nil
}

// policyOf returns a builtin policy; before the name of the mover, also a configured one.
func (s *Selection) policyOf(name string, configured []engine.Policy) (engine.Policy, error) {
	at := strings.LastIndex(name, "+")
	if at < 0 {
		return engine.BuiltinPolicy(name)
	}
	switch kind := s.Moves.Kind.Name; {
	case kind == "":
		return engine.Policy{}, fmt.Errorf("%q: this program moves no pods; write %s", name, name[:at])
	case kind != name[at+1:]:
		return engine.Policy{}, fmt.Errorf("%q: nothing moves pods by the name of %q; write %s", name, name[at+1:], kind)
	}
	if i := slices.IndexFunc(configured, func(p engine.Policy) bool { return p.Name == name[:at] }); i >= 0 {
		return s.Moves.AddTo(configured[i]), nil
	}
	p, err := engine.BuiltinPolicy(name[:at])
	return s.Moves.AddTo(p), err
}

// hasMoves reports whether a policy has the mover.
func (s *Selection) hasMoves() bool {
	return s.Moves.Kind.Name != "" && slices.ContainsFunc(s.Policies, func(name string) bool {
		return strings.HasSuffix(name, "+"+s.Moves.Kind.Name)
	})
}

// ReadInputs returns a replay without policies. It passes what a history lacks to missing.
func (s *Selection) ReadInputs(ctx context.Context, missing func(string)) (Options, error) {
	switch {
	case s.Prometheus != "":
		return s.readHistory(ctx, missing)
	case s.Load != "":
		in, err := input.Load(s.Load)
		if err != nil {
			return Options{}, cluster.OptionErrorf("--load: %w", err)
		}
		return s.again(in), nil
	}
	return s.generate()
}

// again returns a replay of the input with each seed: the pods are the same, and ties are broken another way.
func (s *Selection) again(in *input.Input) Options {
	o := Options{Title: in.Name, Inputs: []*input.Input{in}}
	for i := 1; i < s.Seeds; i++ {
		other := *in
		other.Seed += uint64(i)
		other.Name = fmt.Sprintf("%s, again with seed %d", in.Name, other.Seed)
		o.Inputs = append(o.Inputs, &other)
	}
	return o
}

func (s *Selection) readHistory(ctx context.Context, missing func(string)) (Options, error) {
	const queryTimeout = 2 * time.Minute
	h, err := history.Read(ctx, history.Config{
		Address: s.Prometheus, Since: s.Since, End: time.Now(),
		HTTP: httpclient.Config{BearerTokenFile: s.TokenFile, CAFile: s.CAFile, HTTPConfigFile: s.HTTPConfigFile, Timeout: queryTimeout},
	})
	if err != nil {
		return Options{}, fmt.Errorf("--prometheus: %w", err)
	}
	for _, m := range h.Missing {
		missing(m)
	}
	return s.again(h.Input), nil
}

func (s *Selection) generate() (o Options, err error) {
	scenarios := generate.Scenarios()
	i := slices.IndexFunc(scenarios, func(c generate.Scenario) bool { return c.Name == s.Scenario })
	if i < 0 {
		return o, cluster.OptionErrorf("--scenario: %q; write one of %s", s.Scenario, strings.Join(generate.ScenarioNames(), ", "))
	}
	o.Title = s.Scenario
	var days []*generate.Traces
	if s.Traces != "" {
		if days, err = generate.ReadTraces(s.Traces); err != nil {
			return o, cluster.OptionErrorf("--traces: %w", err)
		}
		if s.Consecutive {
			if n := len(days); n < 2 || n > input.MaxDays {
				return o, cluster.OptionErrorf("--consecutive: %s has %s; give from 2 to %d days, of which the first is not counted",
					s.Traces, text.Count(n, "file"), input.MaxDays)
			}
			days = []*generate.Traces{generate.InARow(days)}
		}
	}
	for seed := uint64(1); seed <= uint64(s.Seeds); seed++ {
		if s.Traces == "" {
			days = []*generate.Traces{generate.Synthetic(seed)}
		}
		for _, traces := range days {
			in, err := generate.Input(traces, scenarios[i], s.Nodes, seed)
			if err != nil {
				return o, cluster.OptionErrorf("--traces: %w", err)
			}
			o.Inputs = append(o.Inputs, in)
		}
	}
	return o, nil
}

// SaveInput writes the one selected input to the file of --save.
func (s *Selection) SaveInput(o Options) error {
	if len(o.Inputs) != 1 {
		return cluster.OptionErrorf("--save: a file holds one day; choose one seed, and a folder with one file of traces")
	}
	return input.Save(s.Save, o.Inputs[0])
}

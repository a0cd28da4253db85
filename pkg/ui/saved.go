package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
	"github.com/plimsoll-scheduler/plimsoll/internal/text"
	"github.com/plimsoll-scheduler/plimsoll/pkg/cluster"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/doctor"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/output"
	"github.com/plimsoll-scheduler/plimsoll/pkg/inspect/top"
)

// Kind is the kind of a snapshot's JSON.
const Kind = "ClusterLoads"

// Bounds of a saved snapshot. One of 15,000 nodes has 12 MiB. Small JSON values take up to 50 times their text in memory.
const (
	maxSavedBytes  = 24 << 20
	maxSavedNodes  = 20_000
	maxSavedChecks = 1000
)

// Take returns a snapshot of the source, and of the checks' results.
func Take(ctx context.Context, o Options) (*State, error) {
	if o.Saved != nil {
		return o.Saved, nil
	}
	nodes, err := o.Source.Nodes(ctx, top.Selection{Order: top.ByName})
	if err != nil {
		return nil, err
	}
	lend := func(_ context.Context, of *cluster.Configuration, use func(*cluster.Cluster) error) (bool, error) {
		return o.Source.Lend(of, use)
	}
	return newState(nodes, o.Source.Waiting(), o.Context, check(ctx, o.Check, lend, clock.RealClock{})), nil
}

// knownReasons are those of kube-scheduler for pods without a node.
var knownReasons = []string{corev1.PodReasonUnschedulable, corev1.PodReasonSchedulingGated, corev1.PodReasonSchedulerError}

// HashNames returns a copy with hashes in place of names. It has no text or label that could hold a name.
func (s *State) HashNames() *State {
	hash := text.NameHash()
	hashed := &State{
		View:        top.View{SchedulerName: hash("profile", s.SchedulerName), Plugin: s.Plugin, Time: s.Time, Unknown: s.Unknown},
		WaitingPods: s.WaitingPods, Waiting: map[string]*top.WaitingPod{}, Nodes: map[string]*NodeRow{},
	}
	if s.Health != nil && s.Health.Report != nil {
		hashed.Health = &Health{Time: s.Health.Time, Report: &doctor.Report{}}
		for _, c := range s.Health.Checks {
			hashed.Health.Checks = append(hashed.Health.Checks, doctor.Result{Group: c.Group, ID: c.ID, Status: c.Status, Message: c.ID})
		}
	}
	for _, p := range s.Waiting {
		w := &top.WaitingPod{
			Namespace: hash("namespace", p.Namespace), Name: hash("pod", p.Name), SchedulerName: hash("profile", p.SchedulerName),
			Since: p.Since,
		}
		if slices.Contains(knownReasons, p.Reason) { // any scheduler can write another, with names
			w.Reason = p.Reason
		}
		hashed.Waiting[w.Namespace+"/"+w.Name] = w
	}
	for _, n := range s.Nodes {
		row := &top.Row{Name: hash("node", n.Name), Pods: n.Pods, CPU: n.CPU, Memory: n.Memory}
		for _, profile := range n.Profiles {
			row.Profiles = append(row.Profiles, hash("profile", profile))
		}
		hashed.Nodes[row.Name] = &NodeRow{Row: row, Pool: hash("pool", n.Pool), Labels: map[string]string{}}
		if zone := n.Labels[corev1.LabelTopologyZone]; zone != "" {
			hashed.Nodes[row.Name].Labels[corev1.LabelTopologyZone] = hash("zone", zone)
		}
	}
	return hashed
}

// WriteFile saves a snapshot. Only the user can read the file.
func (s *State) WriteFile(name string) error {
	first, err := (*state)(nil).next(s)
	if err != nil {
		return err
	}
	return boundedfile.WritePrivate(name, append(first.full(), '\n'))
}

// WriteHTMLFile writes a page of the snapshot that needs no server and asks for nothing. Only the user can read the file.
func (s *State) WriteHTMLFile(name string) error {
	first, err := (*state)(nil).next(s)
	if err != nil {
		return err
	}
	page, err := newPage(first.full())
	if err != nil {
		return err
	}
	return boundedfile.WritePrivate(name, page.content)
}

// ReadFile reads a saved snapshot.
func ReadFile(name string) (*State, error) {
	content, err := boundedfile.Read(name, maxSavedBytes)
	if err != nil {
		return nil, err
	}
	s, err := decode(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; write a file of --save", name, err)
	}
	return s, nil
}

// checkCounts fails if a snapshot has more of something than --save writes.
func checkCounts(content []byte) error {
	var s struct {
		Nodes, Waiting map[string]json.RawMessage
		Health         struct{ Checks []json.RawMessage }
	}
	if err := json.Unmarshal(content, &s); err != nil {
		return err
	}
	for _, c := range []struct {
		of          string
		count, most int
	}{
		{"nodes", len(s.Nodes), maxSavedNodes}, {"waiting", len(s.Waiting), maxWaiting},
		{"health.checks", len(s.Health.Checks), maxSavedChecks},
	} {
		if c.count > c.most {
			return fmt.Errorf("%s: %d, want at most %d", c.of, c.count, c.most)
		}
	}
	return nil
}

func decode(content []byte) (*State, error) {
	if err := checkCounts(content); err != nil {
		return nil, err
	}
	s := &struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		*State
	}{State: &State{}}
	if err := json.Unmarshal(content, s); err != nil {
		return nil, err
	}
	if s.Kind != Kind {
		return nil, fmt.Errorf("kind: %q, want %s", s.Kind, Kind)
	}
	if s.APIVersion != output.APIVersion {
		return nil, fmt.Errorf("apiVersion: %q, want %s", s.APIVersion, output.APIVersion)
	}
	for name, node := range s.Nodes {
		if node == nil || node.Row == nil || node.Name != name {
			return nil, fmt.Errorf("nodes[%q].name: it differs, or is missing", name)
		}
	}
	for name, pod := range s.Waiting {
		if pod == nil || pod.Namespace+"/"+pod.Name != name {
			return nil, fmt.Errorf("waiting[%q].name: it differs, or is missing", name)
		}
	}
	return s.State, nil
}

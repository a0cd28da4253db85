// Package api holds the RebalancerConfiguration. It reads no file.
package api

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll-scheduler/plimsoll/apis/config"
	"github.com/plimsoll-scheduler/plimsoll/apis/config/validation"
)

// APIVersion and Kind are what operators write at the top of the file.
const (
	APIVersion = "rebalancer.plimsoll.io/v1"
	Kind       = "RebalancerConfiguration"
)

// Configuration says which nodes are hot, which pods may move, and how many. Percentages are of a node's capacity, unless the field
// says otherwise. Use Default or Decode.
type Configuration struct {
	metav1.TypeMeta `json:",inline"`

	// Mode says what the rebalancer does about hot nodes.
	Mode Mode `json:"mode"`
	// Paused stops all moves. Moves under way end as usual.
	Paused bool `json:"paused,omitempty"`
	// Windows are the times in which pods may move; always if empty.
	Windows []Window `json:"windows,omitempty"`

	// NodeSelector selects the nodes that pods move off; all if empty. Namespaces are those whose pods may move.
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	Namespaces   Namespaces        `json:"namespaces"`

	// LinePercent is the CPU utilization above which a node is hot. A filter's load line replaces it. NodeThresholds replace it for
	// pools of nodes, each of which counts its hot and unknown nodes apart.
	LinePercent    float64                 `json:"linePercent"`
	NodeThresholds []config.NodeThresholds `json:"nodeThresholds,omitempty"`
	// Refreshes is the number of consecutive refreshes above the line until a node is hot.
	Refreshes int `json:"refreshes"`
	// CooledPercent is the distance below the line, beyond which a hot node has cooled.
	CooledPercent float64 `json:"cooledPercent"`
	// Nothing moves off a pool while more than MaxHotNodesPercent of its nodes are hot, or MaxUnknownNodesPercent of unknown load.
	// Above 0, each allows at least one node. Nodes that no pod can use do not count.
	MaxHotNodesPercent     float64 `json:"maxHotNodesPercent"`
	MaxUnknownNodesPercent float64 `json:"maxUnknownNodesPercent"`

	// RoomPercent is how far below its line the destination stays with the pod.
	RoomPercent float64 `json:"roomPercent"`
	// MinReliefPercent is what a move at least takes off the source, times the pod's disruption. That is a cost from 1 to 4.
	MinReliefPercent float64 `json:"minReliefPercent"`
	// SimulationsPerNode bounds the pods of a hot node that the scheduler is asked about in each plan.
	SimulationsPerNode int `json:"simulationsPerNode"`

	// MaxMovesPerHour and MaxPodsPercentPerHour bound the moves of an hour. The percentage is of pods with a controller that have not
	// ended. Above 0, it allows at least one move.
	MaxMovesPerHour       int     `json:"maxMovesPerHour"`
	MaxPodsPercentPerHour float64 `json:"maxPodsPercentPerHour"`
	// MaxNodesPercentInFlight and MaxPerNamespaceInFlight bound the moves under way. The percentage is of the number of nodes, and
	// allows from 2 to 100 moves.
	MaxNodesPercentInFlight float64 `json:"maxNodesPercentInFlight"`
	MaxPerNamespaceInFlight int     `json:"maxPerNamespaceInFlight"`

	// ReplacementTimeout is the time until the replacement must be ready. Otherwise the move has failed.
	ReplacementTimeout metav1.Duration `json:"replacementTimeout"`
	// After BreakerFailures failures in a row, a namespace's pods stay for BreakerDuration. If as many in a row are of several
	// namespaces, all pods stay.
	BreakerFailures int             `json:"breakerFailures"`
	BreakerDuration metav1.Duration `json:"breakerDuration"`

	// MinPodAge is the age below which pods stay. Pods stay for two windows of load at least.
	MinPodAge metav1.Duration `json:"minPodAge"`

	// Unprotected are the protections to turn off.
	Unprotected []Protection `json:"unprotected,omitempty"`
}

// Namespaces select namespaces by name: those of Include, or all but those of Exclude.
type Namespaces struct {
	Include []string `json:"include,omitempty"`
	Exclude []string `json:"exclude,omitempty"`
}

// Selects reports whether the namespace is selected.
func (n *Namespaces) Selects(name string) bool {
	return !slices.Contains(n.Exclude, name) && (len(n.Include) == 0 || slices.Contains(n.Include, name))
}

// Mode says what the rebalancer does.
type Mode string

// The modes.
const (
	// Plan shows moves, and makes none.
	Plan Mode = "Plan"
	// Evict makes moves.
	Evict Mode = "Evict"
)

// Modes returns all modes.
func Modes() []Mode { return []Mode{Plan, Evict} }

// Protection names pods that stay.
type Protection string

// The protections that can be turned off.
const (
	LocalStorage      Protection = "LocalStorage"
	PersistentVolumes Protection = "PersistentVolumes"
	ResourceClaims    Protection = "ResourceClaims"
	SingleReplicas    Protection = "SingleReplicas"
	Jobs              Protection = "Jobs"
	SystemPriority    Protection = "SystemPriority"
	SystemNamespace   Protection = "SystemNamespace"
	// OtherControllers protects pods of controllers that may not create them again: all but ReplicaSets, StatefulSets,
	// ReplicationControllers and Jobs.
	OtherControllers Protection = "OtherControllers"
)

// Protections returns the protections that can be turned off.
func Protections() []Protection {
	return []Protection{
		LocalStorage, PersistentVolumes, ResourceClaims, SingleReplicas, Jobs, SystemPriority, SystemNamespace, OtherControllers,
	}
}

// Default returns the configuration of a file that sets only apiVersion and kind.
func Default() *Configuration {
	return &Configuration{
		TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: Kind}, Mode: Plan,
		LinePercent: 80, Refreshes: 5, CooledPercent: 5, MaxHotNodesPercent: 20, MaxUnknownNodesPercent: 20,
		RoomPercent: 5, MinReliefPercent: 3, SimulationsPerNode: 5,
		MaxMovesPerHour: 60, MaxPodsPercentPerHour: 1, MaxNodesPercentInFlight: 1, MaxPerNamespaceInFlight: 2,
		ReplacementTimeout: metav1.Duration{Duration: 5 * time.Minute},
		BreakerFailures:    3, BreakerDuration: metav1.Duration{Duration: time.Hour},
		MinPodAge: metav1.Duration{Duration: 10 * time.Minute},
	}
}

// Decode returns the configuration of a YAML or JSON document. Fields that it does not set have their defaults; an explicit zero
// counts. Unknown fields are errors.
func Decode(content []byte) (*Configuration, error) {
	c := Default()
	c.TypeMeta = metav1.TypeMeta{}
	if err := yaml.UnmarshalStrict(content, c); err != nil {
		return nil, err
	}
	if err := c.Validate().ToAggregate(); err != nil {
		return nil, err
	}
	return c, nil
}

// Validate returns an error for each invalid field.
func (c *Configuration) Validate() (errs field.ErrorList) {
	if c.APIVersion != APIVersion {
		errs = append(errs, field.NotSupported(field.NewPath("apiVersion"), c.APIVersion, []string{APIVersion}))
	}
	if c.Kind != Kind {
		errs = append(errs, field.NotSupported(field.NewPath("kind"), c.Kind, []string{Kind}))
	}
	check := func(name string, value any, isValid bool, least, most any) {
		if !isValid {
			errs = append(errs, field.Invalid(field.NewPath(name), value, fmt.Sprintf("must be in [%v, %v]", least, most)))
		}
	}
	for _, f := range []struct {
		name               string
		value, least, most float64
	}{
		{"linePercent", c.LinePercent, 1, 100},
		{"refreshes", float64(c.Refreshes), 1, 100},
		{"cooledPercent", c.CooledPercent, 0, 50},
		{"maxHotNodesPercent", c.MaxHotNodesPercent, 0, 100},
		{"maxUnknownNodesPercent", c.MaxUnknownNodesPercent, 0, 100},
		{"roomPercent", c.RoomPercent, 0, 50},
		{"minReliefPercent", c.MinReliefPercent, 0, 100},
		{"simulationsPerNode", float64(c.SimulationsPerNode), 1, 110},
		{"maxMovesPerHour", float64(c.MaxMovesPerHour), 0, 10_000},
		{"maxPodsPercentPerHour", c.MaxPodsPercentPerHour, 0, 100},
		{"maxNodesPercentInFlight", c.MaxNodesPercentInFlight, 0, 100},
		{"maxPerNamespaceInFlight", float64(c.MaxPerNamespaceInFlight), 1, 1000},
		{"breakerFailures", float64(c.BreakerFailures), 1, 100},
	} {
		check(f.name, f.value, f.value >= f.least && f.value <= f.most, f.least, f.most)
	}
	for _, f := range []struct {
		name               string
		value, least, most time.Duration
	}{
		{"replacementTimeout", c.ReplacementTimeout.Duration, 10 * time.Second, time.Hour},
		{"breakerDuration", c.BreakerDuration.Duration, time.Minute, 24 * time.Hour},
		{"minPodAge", c.MinPodAge.Duration, 0, 24 * time.Hour},
	} {
		check(f.name, f.value.String(), f.value >= f.least && f.value <= f.most, f.least, f.most)
	}
	if !slices.Contains(Modes(), c.Mode) {
		errs = append(errs, field.NotSupported(field.NewPath("mode"), c.Mode, Modes()))
	}
	errs = append(errs, metav1validation.ValidateLabels(c.NodeSelector, field.NewPath("nodeSelector"))...)
	errs = append(errs, validation.ValidateNodeThresholds(field.NewPath("nodeThresholds"), c.NodeThresholds)...)
	if len(c.Namespaces.Include) > 0 && len(c.Namespaces.Exclude) > 0 {
		errs = append(errs, field.Forbidden(field.NewPath("namespaces"), "include and exclude exclude each other; write one of them"))
	}
	for i := range c.Windows {
		errs = append(errs, c.Windows[i].validate(field.NewPath("windows").Index(i))...)
	}
	for i, p := range c.Unprotected {
		if !slices.Contains(Protections(), p) {
			errs = append(errs, field.NotSupported(field.NewPath("unprotected").Index(i), p, Protections()))
		}
	}
	return errs
}

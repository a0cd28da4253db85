//go:build kubernetes_1_34 || kubernetes_1_35

package loadscore

import "github.com/plimsoll-scheduler/plimsoll/pkg/minor"

// Placements is empty: before Kubernetes 1.36, no plugin scores placements of pod groups.
type Placements struct{}

// PlacementsOf returns Placements.
func PlacementsOf(minor.ScorePlugin) Placements { return Placements{} }

// Package loadvariationriskbalancing scores nodes by the risk that their load passes their allocatable, for which both a
// high mean and a high deviation count: of two nodes with equal means it prefers the steadier.
package loadvariationriskbalancing

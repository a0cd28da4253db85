// Package e2e tests the built scheduler on a real control plane, with simulated nodes whose load is really measured.
package e2e

// Package inspect tests the built kubectl-plimsoll against a real control plane, with simulated nodes whose load is really measured
// and the built scheduler beside it.
package inspect

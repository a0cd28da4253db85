// Package inspect tests the built kubectl-plimsoll against a real control plane. Its nodes are simulated, but their load is
// measured. The built scheduler runs beside it.
package inspect

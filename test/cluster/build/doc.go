// Package build makes the programs that a cluster for tests consists of, from source, with the Go toolchain alone. What is
// up to date is left as it is.
package build

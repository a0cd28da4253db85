// Package build builds the programs that a cluster for tests consists of, from source and with the Go toolchain alone. It does
// not rebuild a program that is up to date.
package build

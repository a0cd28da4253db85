// Command stub stands for the programs of a release in tests: it is small, but has a module to take the license of.
package main

import "golang.org/x/mod/semver"

func main() { println(semver.Canonical("v1.0")) }

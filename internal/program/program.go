// Package program describes the running program.
package program

import (
	"cmp"
	"runtime/debug"
)

// Version returns the version that the linker set, or else that of the module.
func Version(linked string) string {
	built := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		built = info.Main.Version
	}
	return cmp.Or(linked, built)
}

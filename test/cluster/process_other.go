//go:build !linux

package cluster

import "syscall"

// dieWithParent does nothing: only Linux has what it takes.
func dieWithParent(attr *syscall.SysProcAttr) *syscall.SysProcAttr { return attr }

package cluster

import "syscall"

// dieWithParent makes the kernel end the process when this one is gone, in whatever way.
func dieWithParent(attr *syscall.SysProcAttr) *syscall.SysProcAttr {
	attr.Pdeathsig = syscall.SIGKILL
	return attr
}

//go:build !linux

package cluster

import "syscall"

// dieWithParent does nothing: only Linux has what it takes.
func dieWithParent(attr *syscall.SysProcAttr) *syscall.SysProcAttr { return attr }

// confine gives the process a root of its own and makes it containerUser, which takes root.
func confine(attr *syscall.SysProcAttr, root string) {
	attr.Chroot = root
	attr.Credential = &syscall.Credential{Uid: containerUser, Gid: containerGroup}
}

//go:build !linux

package cluster

import (
	"errors"
	"syscall"
	"time"
)

// ProcessorTime needs Linux.
func (p *Process) ProcessorTime() (time.Duration, error) { return 0, errors.ErrUnsupported }

// dieWithParent does nothing: only Linux supports it.
func dieWithParent(attr *syscall.SysProcAttr) *syscall.SysProcAttr { return attr }

// confine gives the process a root folder of its own and runs it as containerUser. It needs root's permissions.
func confine(attr *syscall.SysProcAttr, root string) {
	attr.Chroot = root
	attr.Credential = &syscall.Credential{Uid: containerUser, Gid: containerGroup}
}

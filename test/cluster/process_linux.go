package cluster

import (
	"os"
	"syscall"
)

// dieWithParent makes the kernel kill the process when this one ends, however it ends.
func dieWithParent(attr *syscall.SysProcAttr) *syscall.SysProcAttr {
	attr.Pdeathsig = syscall.SIGKILL
	return attr
}

// confine gives the process a root folder of its own and runs it as containerUser. Without root's permissions it does so in a user
// namespace that maps containerUser to the present user.
func confine(attr *syscall.SysProcAttr, root string) {
	attr.Chroot = root
	attr.Credential = &syscall.Credential{Uid: containerUser, Gid: containerGroup}
	if os.Geteuid() != 0 {
		attr.Credential.NoSetGroups = true
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: containerUser, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: containerGroup, HostID: os.Getegid(), Size: 1}}
	}
}

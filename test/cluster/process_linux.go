package cluster

import (
	"os"
	"syscall"
)

// dieWithParent makes the kernel end the process when this one is gone, in whatever way.
func dieWithParent(attr *syscall.SysProcAttr) *syscall.SysProcAttr {
	attr.Pdeathsig = syscall.SIGKILL
	return attr
}

// confine gives the process a root of its own and makes it containerUser. Who is not root does so in a user namespace, in
// which containerUser is another name for himself.
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

package sshx

import "syscall"

// ownSession has a process lead a session, and ends it when the thread ends that has started it.
func ownSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

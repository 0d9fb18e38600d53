package proc

import "syscall"

// OwnSession has a process lead a session, and ends it when the thread ends that has started it.
func OwnSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

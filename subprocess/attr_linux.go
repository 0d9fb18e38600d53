package subprocess

import "syscall"

// SessionAttr has a command lead a session, so that ^C on our terminal does not reach it. It gets SIGKILL when this process is killed.
func SessionAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// GroupAttr has a command lead a process group. It gets SIGTERM when this process is killed.
func GroupAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

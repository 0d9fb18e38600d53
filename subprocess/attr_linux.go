package subprocess

import "syscall"

// SessionAttr returns attributes that start a command in its own session, so that ^C on the terminal does not reach it. The
// command gets SIGKILL when this process is killed.
func SessionAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// GroupAttr returns attributes that start a command in its own process group. It gets SIGTERM when this process is killed.
func GroupAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

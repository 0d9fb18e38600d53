package subprocess

import "syscall"

// SessionAttr returns attributes that start a command in its own session, so that ^C on the terminal does not reach
// the command. The kernel sends the command SIGKILL when this process dies.
func SessionAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// GroupAttr returns attributes that start a command in its own process group. The kernel sends the command SIGTERM
// when this process dies.
func GroupAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

package subprocess

import "syscall"

// SessionAttr returns attributes that start a command in a session of its own, so that ^C on the terminal does not
// reach it. The command gets SIGKILL when this process dies.
func SessionAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// GroupAttr returns attributes that start a command in a process group of its own. The command gets SIGTERM when this
// process dies.
func GroupAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

//go:build !linux

package subprocess

import "syscall"

// Session has a command lead a session, so that ^C on our terminal does not reach it.
func Session() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// Group has a command lead a process group.
func Group() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

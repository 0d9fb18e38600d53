//go:build !linux

package subprocess

import "syscall"

// SessionAttr has a command lead a session, so that ^C on our terminal does not reach it.
func SessionAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// GroupAttr has a command lead a process group.
func GroupAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

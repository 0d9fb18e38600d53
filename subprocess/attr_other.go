//go:build !linux

package subprocess

import "syscall"

// SessionAttr returns attributes that start a command in its own session, so that ^C on the terminal does not reach
// the command.
func SessionAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// GroupAttr returns attributes that start a command in its own process group.
func GroupAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

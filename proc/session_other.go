//go:build !linux

package proc

import "syscall"

// OwnSession has a process lead a session.
func OwnSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

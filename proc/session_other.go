//go:build !linux

package sshx

import "syscall"

// ownSession has a process lead a session.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

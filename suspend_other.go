//go:build !linux

package main

import "syscall"

// suspend stops this process until somebody continues it.
func suspend() { syscall.Kill(syscall.Getpid(), syscall.SIGSTOP) }

//go:build !linux

package main

import "syscall"

// suspend stops this process until another process continues it.
func suspend() { syscall.Kill(syscall.Getpid(), syscall.SIGSTOP) }

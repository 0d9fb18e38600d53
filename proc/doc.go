//go:build !linux

// Package proc ends trees of processes; it can do so on Linux only.
package proc

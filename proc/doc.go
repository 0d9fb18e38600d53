//go:build !linux

// Package proc finds and ends process trees. It works on Linux only.
package proc

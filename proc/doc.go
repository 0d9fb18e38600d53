//go:build !linux

// Package proc finds and ends process trees. It does so on Linux only.
package proc

//go:build !linux

package transport

import "os"

// Only Linux lets a process inherit the orphans of its descendants. On other systems the children of a killed
// helper are not ended.

type startTime struct{}

func becomeSubreaper() error          { return nil }
func runningProgram() (string, error) { return os.Executable() }
func watchOutOfMemory() func() string { return func() string { return "" } }
func startTimeOf(int) startTime       { return startTime{} }
func endOrphans(startTime)            {}

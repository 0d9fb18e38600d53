//go:build !linux

package reach

import "os"

// Only Linux lets a process inherit the orphans of its descendants. Elsewhere the
// children of a killed helper are not looked after.

type birth struct{}

func adopt() error                    { return nil }
func runningProgram() (string, error) { return os.Executable() }
func sinceNow() func() string         { return func() string { return "" } }
func birthOf(int) birth               { return birth{} }
func endOrphans(birth)                {}

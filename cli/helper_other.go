//go:build !linux

package cli

import (
	"fmt"
	"os"
)

const guardArg = "--helper-guard"

// IsHelper reports whether the first argument starts a helper.
func IsHelper(arg string) bool {
	return arg == "--helper" || arg == "--helper-child" || arg == "--helper-guard"
}

// Helper says that this build cannot be one.
func Helper([]string) int {
	fmt.Fprintln(os.Stderr, "mpiexec helper: ranks run on Linux only")
	return exitFailure
}

//go:build !linux

package cli

import (
	"errors"
	"fmt"
	"os"

	"remshell/job"
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

// probeHere says that this build cannot look at its machine: no rank can run here.
func probeHere(System) (job.Probe, error) { return job.Probe{}, errors.New("ranks run on Linux only") }

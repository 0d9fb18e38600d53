//go:build !linux

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"remshell/job"
)

// This file says where ranks cannot run what this build cannot do.

// Helper says that this build cannot be one.
func Helper([]string) int {
	fmt.Fprintln(os.Stderr, "mpiexec helper: ranks run on Linux only")
	return job.ExitInternal
}

// newInside would start ranks here, which only Linux can.
func newInside([]string, []string, func() (job.Probe, error)) io.ReadWriteCloser { return nil }

// Stdout is our standard output.
func Stdout() io.Writer { return os.Stdout }

// lookAhead does not look.
func lookAhead([]string) func() (job.Probe, error) { return nil }

// probeHere says that this build cannot look at its machine: no rank can run here.
func probeHere(System) (job.Probe, error) { return job.Probe{}, errors.New("ranks run on Linux only") }

// traitsHere knows nothing of this machine.
func traitsHere(System) job.Traits { return job.Traits{} }

// loginHere knows nothing of this login.
func loginHere(context.Context, System) *job.Exam { return nil }

// offerHere knows nothing of programs: no rank can run here.
func offerHere(job.App, []string) string { return "" }

// lockFile locks a file against all others, until it is closed everywhere; EAGAIN: another has it.
func lockFile(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// keepNewlines leaves a terminal as it is.
func keepNewlines(int) {}

// softLimits are not known here: their numbers are the kernel's own.
func softLimits() []job.SoftLimit { return nil }

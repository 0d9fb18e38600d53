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

// HelperMain says that this build cannot be one.
func HelperMain([]string) int {
	fmt.Fprintln(os.Stderr, "mpiexec helper: ranks run on Linux only")
	return job.ExitInternal
}

// newInProcessHelper would start ranks here, which only Linux can.
func newInProcessHelper([]string, []string, func() (job.Probe, error)) io.ReadWriteCloser { return nil }

// Stdout is our standard output.
func Stdout() io.Writer { return os.Stdout }

// startLocalProbe does not look.
func startLocalProbe([]string) func() (job.Probe, error) { return nil }

// probeLocal says that this build cannot look at its machine: no rank can run here.
func probeLocal(System) (job.Probe, error) { return job.Probe{}, errors.New("ranks run on Linux only") }

// localAttributes knows nothing of this machine.
func localAttributes(System) job.Attributes { return job.Attributes{} }

// examineLocalLogin knows nothing of this login.
func examineLocalLogin(context.Context, System) *job.NodeDiagnosis { return nil }

// detectLocalPMI knows nothing of programs: no rank can run here.
func detectLocalPMI(job.App, []string) string { return "" }

// lockFile locks a file against all others, until it is closed everywhere; EAGAIN: another has it.
func lockFile(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// keepNewlines leaves a terminal as it is.
func keepNewlines(int) {}

// softLimits are not known here: their numbers are the kernel's own.
func softLimits() []job.SoftLimit { return nil }

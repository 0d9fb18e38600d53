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

// This file replaces platform_linux.go and helper_linux.go on systems where ranks cannot run.

// HelperMain returns an error code, because helpers run on Linux only.
func HelperMain([]string) int {
	fmt.Fprintln(os.Stderr, "mpiexec helper: ranks run on Linux only")
	return job.ExitInternal
}

// newInProcessHelper returns nil, because helpers run on Linux only.
func newInProcessHelper([]string, []string, func() (job.Probe, error)) io.ReadWriteCloser { return nil }

// Stdout returns mpiexec's standard output.
func Stdout() io.Writer { return os.Stdout }

// startLocalProbe returns nil, because only Linux machines can be probed.
func startLocalProbe([]string) func() (job.Probe, error) { return nil }

// probeLocal returns an error, because only Linux machines can be probed.
func probeLocal(System) (job.Probe, error) { return job.Probe{}, errors.New("ranks run on Linux only") }

// localAttributes returns no attributes, because only Linux machines can be probed.
func localAttributes(System) job.Attributes { return job.Attributes{} }

// examineLocalLogin returns nil, because logins are diagnosed on Linux only.
func examineLocalLogin(context.Context, System) *job.NodeDiagnosis { return nil }

// detectLocalPMI returns "", because ranks run on Linux only.
func detectLocalPMI(job.App, []string) string { return "" }

// lockFile locks a file exclusively, until all its descriptors are closed. It does not wait: if another
// process holds the lock, the error is EAGAIN.
func lockFile(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// keepNewlines does nothing on this operating system, where no rank has a terminal.
func keepNewlines(int) {}

// softLimits returns nil, because this operating system numbers its limits differently from Linux.
func softLimits() []job.SoftLimit { return nil }

// ownPriority returns the zero value. Ranks then keep the priority of the helper that starts them.
func ownPriority() job.Priority { return job.Priority{} }

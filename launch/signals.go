package launch

import (
	"syscall"

	"golang.org/x/sys/unix"

	"remshell/job"
)

// onNodes is a signal to mpiexec by the number that it has on nodes, where this machine is of
// another system.
func onNodes(here syscall.Signal) job.Signal {
	if s := job.SignalNamed(unix.SignalName(here)); s != 0 {
		return s
	}
	return job.Signal(here)
}

// signalsOnNodes are the user's wishes about signals, with the numbers that these have on nodes.
func signalsOnNodes(s job.Signals) job.Signals {
	if s.Forward == nil {
		return s
	}
	forward := make([]int, len(s.Forward))
	for i, number := range s.Forward {
		forward[i] = int(onNodes(syscall.Signal(number)))
	}
	s.Forward = forward
	return s
}

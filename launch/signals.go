package launch

import (
	"context"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
	"remshell/launch/supervise"
)

// signalOnNodes is a signal to mpiexec by the number that it has on nodes, where this machine is of
// another system.
func signalOnNodes(here syscall.Signal) job.Signal {
	if s := job.SignalByName(unix.SignalName(here)); s != 0 {
		return s
	}
	return job.Signal(here)
}

// signalHere is what onNodes has made of a signal to mpiexec.
func signalHere(onNodes job.Signal) syscall.Signal {
	if number := unix.SignalNum(onNodes.String()); number != 0 {
		return number
	}
	return syscall.Signal(onNodes)
}

// pendingSignals takes the signals that came when an attempt was over, but not yet told so.
func (f *runningJob) pendingSignals() (left []syscall.Signal) {
	for _, event := range f.events.Take(context.Background(), time.Now()) {
		if s, is := event.(supervise.Signaled); is {
			left = append(left, signalHere(s.Signal))
		}
	}
	return left
}

// warningOnNodes is the user's warning, with the number that its signal has on nodes.
func warningOnNodes(w job.EndWarning) job.EndWarning {
	if w.Signal != 0 {
		w.Signal = int(signalOnNodes(syscall.Signal(w.Signal)))
	}
	return w
}

// signalsOnNodes are the user's wishes about signals, with the numbers that these have on nodes.
func signalsOnNodes(s job.SignalPolicy) job.SignalPolicy {
	if s.Forward == nil {
		return s
	}
	forward := make([]int, len(s.Forward))
	for i, number := range s.Forward {
		forward[i] = int(signalOnNodes(syscall.Signal(number)))
	}
	s.Forward = forward
	return s
}

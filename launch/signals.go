package launch

import (
	"context"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
	"remshell/launch/supervise"
)

/*
The path of a signal to mpiexec, from the kernel to the ranks:

	main            stopState.relay          drops repetitions of SIGTERM and SIGHUP
	reserve         SignalWatch.handle       before the ranks run: a signal to end cancels the start
	                    | HandOver(take)     once they run: runAttempt has set take
	launch          events.Put(Signaled)     with the signal's number on the nodes
	                supervise --> Job.Step
	supervise       State.handleSignal       decides: to the ranks, end the job, stop it, or nothing
	launch          Job.carryOut             SignalAllRanks: wire.Signal to all nodes. EndAll: wire.EndJob
	helper          Session.handleFrame --> lifecycle.Signal --> PassSignal for each running rank
	                Session.passSignal       kill(2) of the rank's process group

The terminal sends ^C to its foreground process group: to mpiexec, but to no rank. A rank leads a session of
its own, or is in the session of a helper that has no terminal. hardExit of package main counts signals
apart from all this, and exits if the rest hangs.
*/

// signalOnNodes converts a signal number of this machine, which may run macOS, to the number that Linux uses
// on the nodes.
func signalOnNodes(sig syscall.Signal) job.Signal {
	if s := job.SignalByName(unix.SignalName(sig)); s != 0 {
		return s
	}
	return job.Signal(sig)
}

// signalHere converts a signal number of the nodes to the number on this machine.
func signalHere(onNodes job.Signal) syscall.Signal {
	if number := unix.SignalNum(onNodes.String()); number != 0 {
		return number
	}
	return syscall.Signal(onNodes)
}

// pendingSignals returns the signals that arrived after an attempt (one run of all ranks) was over and that
// supervision did not handle.
func (j *Job) pendingSignals() (pending []syscall.Signal) {
	for _, event := range j.events.Take(context.Background(), time.Now()) {
		if s, is := event.(supervise.Signaled); is {
			pending = append(pending, signalHere(s.Signal))
		}
	}
	return pending
}

// warningOnNodes returns w with the signal number that the nodes use. The signal warns ranks before the job's time
// ends.
func warningOnNodes(w job.EndWarning) job.EndWarning {
	if w.Signal != 0 {
		w.Signal = int(signalOnNodes(syscall.Signal(w.Signal)))
	}
	return w
}

// signalsOnNodes returns s with the signal numbers that the nodes use.
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

package main

import (
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

/*
A pause knows whether the stop that SIGTSTP has asked for is still wanted. The job around us is stopped
first, and by then whoever asked may have let us go on already; a batch system suspends and resumes all
processes of a job, one host after the other, and would not say so again:

	batch system --- TSTP ---> mpiexec --- stop ---> ranks
	             --- CONT --->         (not stopped itself)
	                                   --- go on --> ranks
*/
type stopState struct{ continued atomic.Bool }

// relay hands signals on that are news, in their order, and notes which of the two came last.
func (p *stopState) relay(from <-chan os.Signal, to chan<- os.Signal) {
	var ends endSignals
	for s := range from {
		p.noteSignal(s)
		if !ends.isRepeat(s, time.Now()) {
			to <- s
		}
	}
}

func (p *stopState) noteSignal(s os.Signal) {
	switch s {
	case syscall.SIGTSTP:
		p.continued.Store(false)
	case syscall.SIGCONT:
		p.continued.Store(true)
	}
}

// stopUnlessContinued stops us, unless we were told to go on since.
func (p *stopState) stopUnlessContinued(stop func()) {
	if !p.continued.Load() {
		stop()
	}
}

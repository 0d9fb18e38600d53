package main

import (
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

/*
A stopState records whether mpiexec should still stop itself after SIGTSTP. mpiexec stops its ranks first, and
SIGCONT may arrive before all ranks have stopped. In that case mpiexec must not stop itself. A batch system suspends
and resumes all processes of a job, one host after the other, and sends each signal only once:

	batch system --- TSTP ---> mpiexec --- stop ---> ranks
	             --- CONT --->         (not stopped itself)
	                                   --- go on --> ranks
*/
type stopState struct{ continued atomic.Bool }

// relay forwards signals in the order of their arrival, except repetitions of SIGTERM and SIGHUP (endSignals). It
// records which of SIGTSTP and SIGCONT has arrived last.
func (p *stopState) relay(received <-chan os.Signal, target chan<- os.Signal) {
	var ends endSignals
	for s := range received {
		p.noteSignal(s)
		if !ends.isRepeat(s, time.Now()) {
			target <- s
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

// stopUnlessContinued calls stop, unless SIGCONT has arrived after the last SIGTSTP.
func (p *stopState) stopUnlessContinued(stop func()) {
	if !p.continued.Load() {
		stop()
	}
}

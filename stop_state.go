package main

import (
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

/*
A stopState says whether mpiexec should still stop for a SIGTSTP. mpiexec stops its ranks first. By then a SIGCONT may
have come: a batch system suspends and resumes all processes of a job, one host after the other, and sends it only once:

	batch system --- TSTP ---> mpiexec --- stop ---> ranks
	             --- CONT --->         (not stopped itself)
	                                   --- go on --> ranks
*/
type stopState struct{ continued atomic.Bool }

// relay forwards signals in order, except for repetitions, and notes whether SIGTSTP or SIGCONT came last.
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

// stopUnlessContinued calls stop, unless SIGCONT has come since the last SIGTSTP.
func (p *stopState) stopUnlessContinued(stop func()) {
	if !p.continued.Load() {
		stop()
	}
}

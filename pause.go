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
type pause struct{ over atomic.Bool }

// relay hands signals on that are news, in their order, and notes which of the two came last.
func (p *pause) relay(from <-chan os.Signal, to chan<- os.Signal) {
	var ends endings
	for s := range from {
		p.note(s)
		if !ends.repeats(s, time.Now()) {
			to <- s
		}
	}
}

func (p *pause) note(s os.Signal) {
	switch s {
	case syscall.SIGTSTP:
		p.over.Store(false)
	case syscall.SIGCONT:
		p.over.Store(true)
	}
}

// during stops us, unless we were told to go on since.
func (p *pause) during(stop func()) {
	if !p.over.Load() {
		stop()
	}
}

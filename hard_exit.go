package main

import (
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

// A hardExit is the last one (TRUST-34): it counts the signals that mean the end, beside all
// that acts on them, and leaves when mpiexec is still there. It takes no lock, waits for
// nothing, and owns nothing, so whatever the rest of the program hangs on does not hold it.
type hardExit struct {
	interruptCount, endCount int

	restoreTerminal atomic.Pointer[func()] // gives the user's terminal back; nil: we have changed nothing
}

// Times of the last resort.
const (
	hardExitPatience  = 5 * time.Second        // for what a second SIGTERM has begun
	hardExitFlushTime = 300 * time.Millisecond // for a line on its way to a terminal, and for the rest of us
)

// hardExitMessage are what the user reads then.
const hardExitMessage = "mpiexec: leaving at once; hosts clean up by themselves\n"

// countSignal takes a signal in, and says how soon to leave because of it.
func (r *hardExit) countSignal(s syscall.Signal) (patience time.Duration, leave bool) {
	if s == syscall.SIGINT {
		r.interruptCount++
		return 0, r.interruptCount == 3
	}
	r.endCount++
	return hardExitPatience, r.endCount == 2
}

// watchSignals counts until it is time to leave.
func (r *hardExit) watchSignals(signals <-chan os.Signal) {
	var due <-chan time.Time
	var ends endSignals
	code := 0
	for {
		select {
		case s := <-signals:
			if ends.isRepeat(s, time.Now()) {
				continue
			}
			number := s.(syscall.Signal)
			if patience, leave := r.countSignal(number); leave {
				code, due = 128+int(number), time.After(patience)
			}
		case <-due:
			r.exitNow(code)
		}
	}
}

// exitNow ends the process. Who still acts has a last chance to kill the ranks on the hosts. It begins when
// the words are on their way: on a machine that gives us nothing for a while they would come too late.
func (r *hardExit) exitNow(code int) {
	speaks := make(chan struct{})
	go func() { // a terminal that takes nothing must not hold us
		close(speaks)
		syscall.Write(int(os.Stderr.Fd()), []byte(hardExitMessage))
		if restore := r.restoreTerminal.Load(); restore != nil {
			(*restore)()
		}
	}()
	<-speaks
	<-time.After(hardExitFlushTime)
	os.Exit(code)
}

// setRestoreTerminal notes how the terminal is given back.
func (r *hardExit) setRestoreTerminal(restore func()) { r.restoreTerminal.Store(&restore) }

// start has it watch from now on.
func (r *hardExit) start() {
	signals := make(chan os.Signal, 16)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if s != syscall.SIGHUP || !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	go r.watchSignals(signals)
}

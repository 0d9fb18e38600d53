package main

import (
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

// A hardExit ends mpiexec even if other goroutines hang (rule TRUST-34). It counts SIGINT, SIGTERM and SIGHUP itself.
// After the third SIGINT, or some time after the second SIGTERM or SIGHUP, it makes mpiexec exit. A hardExit takes no
// lock and waits for no other goroutine, so a goroutine that hangs cannot block it.
type hardExit struct {
	interruptCount, endCount int

	restoreTerminal atomic.Pointer[func()] // restores the user's terminal; nil: it was not changed
}

// These constants are the delays before a hardExit ends mpiexec.
const (
	hardExitPatience  = 5 * time.Second        // from the second SIGTERM until the exit, for ending the ranks
	hardExitFlushTime = 300 * time.Millisecond // from the message until the exit
)

// hardExitMessage is printed before a hardExit ends mpiexec.
const hardExitMessage = "mpiexec: exiting at once; the hosts end the remaining ranks by themselves\n"

// countSignal counts a signal. last is true if mpiexec must exit because of this signal, after delay.
func (r *hardExit) countSignal(s syscall.Signal) (delay time.Duration, last bool) {
	if s == syscall.SIGINT {
		r.interruptCount++
		return 0, r.interruptCount == 3
	}
	r.endCount++
	return hardExitPatience, r.endCount == 2
}

// watchSignals counts signals. When countSignal reports that mpiexec must exit, watchSignals waits for the returned
// delay and exits.
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

// exitNow prints hardExitMessage, restores the terminal, and exits after hardExitFlushTime. During this time other
// goroutines can still kill the ranks on the hosts.
func (r *hardExit) exitNow(code int) {
	printing := make(chan struct{})
	go func() { // a terminal that accepts no data must not block the exit
		close(printing)
		syscall.Write(int(os.Stderr.Fd()), []byte(hardExitMessage))
		if restore := r.restoreTerminal.Load(); restore != nil {
			(*restore)()
		}
	}()
	<-printing
	<-time.After(hardExitFlushTime)
	os.Exit(code)
}

// setRestoreTerminal sets the function that restores the terminal.
func (r *hardExit) setRestoreTerminal(restore func()) { r.restoreTerminal.Store(&restore) }

// start starts a goroutine that counts the signals SIGINT, SIGTERM and SIGHUP.
func (r *hardExit) start() {
	signals := make(chan os.Signal, 16)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if s != syscall.SIGHUP || !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	go r.watchSignals(signals)
}

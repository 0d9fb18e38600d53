package main

import (
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

// A resort is the last one (TRUST-34): it counts the signals that mean the end, beside all
// that acts on them, and leaves when mpiexec is still there. It takes no lock, waits for
// nothing, and owns nothing, so whatever the rest of the program hangs on does not hold it.
type resort struct {
	interrupts, ends int

	lent atomic.Pointer[func()] // gives the user's terminal back; nil: we have changed nothing
}

// Times of the last resort.
const (
	resortPatience = 5 * time.Second        // for what a second SIGTERM has begun
	lastChance     = 300 * time.Millisecond // for a line on its way to a terminal, and for the rest of us
)

// lastWords are what the user reads then.
const lastWords = "mpiexec: leaving at once; hosts clean up by themselves\n"

// count takes a signal in, and says how soon to leave because of it.
func (r *resort) count(s syscall.Signal) (patience time.Duration, leave bool) {
	if s == syscall.SIGINT {
		r.interrupts++
		return 0, r.interrupts == 3
	}
	r.ends++
	return resortPatience, r.ends == 2
}

// watch counts until it is time to leave.
func (r *resort) watch(signals <-chan os.Signal) {
	var due <-chan time.Time
	var ends endings
	code := 0
	for {
		select {
		case s := <-signals:
			if ends.repeats(s, time.Now()) {
				continue
			}
			number := s.(syscall.Signal)
			if patience, leave := r.count(number); leave {
				code, due = 128+int(number), time.After(patience)
			}
		case <-due:
			r.leave(code)
		}
	}
}

// leave ends the process. Who still acts has a last chance to kill the ranks on the hosts. It begins when
// the words are on their way: on a machine that gives us nothing for a while they would come too late.
func (r *resort) leave(code int) {
	speaks := make(chan struct{})
	go func() { // a terminal that takes nothing must not hold us
		close(speaks)
		syscall.Write(int(os.Stderr.Fd()), []byte(lastWords))
		if restore := r.lent.Load(); restore != nil {
			(*restore)()
		}
	}()
	<-speaks
	<-time.After(lastChance)
	os.Exit(code)
}

// lend notes how the terminal is given back.
func (r *resort) lend(restore func()) { r.lent.Store(&restore) }

// begin has it watch from now on.
func (r *resort) begin() {
	signals := make(chan os.Signal, 16)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if s != syscall.SIGHUP || !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	go r.watch(signals)
}

//go:build linux

package helper

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"remshell/wire"
)

// An ownSignals is what the batch system has told us, and with us all processes that its starter has
// started here: also the ranks.
//
//	scancel, the time limit --> slurmstepd ---- TERM ----> keeper, which ignores it
//	                                 |--------- TERM ----> helper --- Caught ---> mpiexec
//	                                 '--------- TERM ----> ranks              <--- End ---
type ownSignals struct {
	parent int                       // a keeper; we get SIGTERM as well when it dies
	at     map[unix.Signal]time.Time // when signals came that mpiexec may yet pass on
	ending bool                      // mpiexec was told
}

func newOwnSignals() ownSignals {
	return ownSignals{parent: os.Getppid(), at: make(map[unix.Signal]time.Time)}
}

// toldTime is how long after a signal that the ranks had from the batch system the same one of
// mpiexec's is taken for that.
const toldTime = 5 * time.Second

// unanswered says that mpiexec has had time to order the end of the ranks.
type unanswered struct{ grace time.Duration }

// caught takes a signal to ourselves. One to end ends the job, as if mpiexec were gone; but where a
// batch system holds us it means the ranks, which had it as well. They are seen to their end, with
// what they say and consume, as mpiexec orders, or without it after half of their grace (RM-60).
func (s *session) caught(sig os.Signal) {
	number, _ := sig.(unix.Signal)
	held := s.prepare != nil && s.prepare.Supervision.Held && len(s.byRank) > 0 && os.Getppid() == s.parent
	if held {
		s.at[number] = time.Now()
	}
	switch {
	case number != unix.SIGTERM && number != unix.SIGINT && number != unix.SIGHUP && number != unix.SIGXCPU:
	case held && !s.ending:
		s.ending = true
		s.conn.Send(&wire.Caught{Signal: int(number)})
		half := s.prepare.Supervision.Grace / 2
		time.AfterFunc(half, func() { s.tell(unanswered{half}) })
	case !held && number != unix.SIGXCPU:
		s.lose(fmt.Errorf("got signal %d", number))
		go s.conn.Close() // mpiexec shall hear of this first, not of what we end
	}
}

// had reports whether the ranks had a signal from the batch system already, and forgets it, but
// for SIGTERM: nobody needs to be told twice to end. What stops them is always passed on, and so
// is what lets them go on after that.
func (s *session) had(number unix.Signal) bool {
	at, came := s.at[number]
	switch number {
	case unix.SIGTERM: // that of a keeper's death came to us alone
		return came && os.Getppid() == s.parent
	case unix.SIGSTOP:
		delete(s.at, unix.SIGCONT)
		return false
	}
	delete(s.at, number)
	return came && time.Since(at) < toldTime
}

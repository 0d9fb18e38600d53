//go:build linux

package helper

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"remshell/helper/life"
	"remshell/proc"
	"remshell/wire"
)

const (
	// lastWords is how long the end of a rank waits for somebody to take the rest
	// of its output (IO-10).
	lastWords = 2 * time.Second

	// slowReader is after how long mpiexec hears that only its reader is waited for.
	slowReader = time.Second
)

// hurryUp lets no rank come up any more, and none be led to a happy end (pmi-wire.md 6.3).
func (s *session) hurryUp() {
	if !s.stopForking.Swap(true) {
		close(s.hurry)
	}
	for _, r := range s.ranks {
		r.noteBarrier()
	}
	for _, g := range s.groups {
		g.pmi.Freeze()
	}
	if s.pmix != nil {
		s.pmix.server.Freeze()
	}
}

// ask sends SIGTERM to all that is left. A rank that is about to end by itself was not asked to.
func (s *session) ask() {
	s.owners.adopt(s.life.IsRank)
	s.left.Look(s.members)
	for _, r := range s.ranks {
		r.dying = r.alive() && proc.Exiting(r.begun.PID)
		r.noteBarrier()
	}
	if !s.had(unix.SIGTERM) {
		s.strike(unix.SIGTERM)
	}
	s.strike(unix.SIGCONT) // a stopped process takes no SIGTERM
}

// strike sends a signal to all that is left of the job, which the guard is no part of; but for ranks and what they
// have in their process groups, if the rest may stay.
func (s *session) strike(sig unix.Signal) {
	if s.life.MayStay() {
		s.signalGroups(sig)
		return
	}
	for _, p := range proc.Below(os.Getpid()) {
		if p.PID != s.guard.pid {
			unix.Kill(p.PID, sig)
		}
	}
}

// awaitSilence waits until the pipes of all ranks have ended: nobody is left who could
// write, but what a leftover child last wrote may still be in them. If the job is being
// ended, and nobody takes it, that is given up after lastWords; else mpiexec is told that
// no process is left.
func (s *session) awaitSilence(noise int) {
	var open []*source
	for _, r := range s.ranks {
		if r.out != nil {
			open = append(open, r.out, r.err)
		}
	}
	stay := s.life.MayStay()
	go func() {
		slow := time.NewTimer(slowReader)
		defer slow.Stop()
		var late <-chan time.Time
		hurry := s.hurry
		if stay {
			late = time.After(lastWords) // those who stay may keep their pipes for ever
		}
		for i := 0; i < len(open); {
			select {
			case <-open[i].ended:
				i++
			case <-hurry:
				late, hurry = time.After(lastWords), nil
			case <-slow.C:
				s.tell(life.Slow{Noise: noise})
			case <-late:
				i = len(open)
			}
		}
		s.tell(life.Silence{Noise: noise})
	}()
}

// tellDrained tells mpiexec that nothing of the job is left here. What it claims goes first, so that
// the next job finds the CPUs free; or it stays, for the next attempt. A group that is prepared meanwhile waits for
// it: mpiexec lets it go when it is told that the group is, and must not hear then that nothing is left.
func (s *session) tellDrained() {
	drained := &wire.Drained{Orphans: s.owners.list(s.byRank)}
	left := s.takeLeft()
	s.claims.Drain(s.prepare.Claim.Lasts, func() {
		s.closing.Wait()
		if m := left.free(); m != nil {
			s.conn.Send(m)
		}
		drained.Sessions = s.stays.take()
	}, func() { s.conn.Send(drained) })
}

// An ownSignals is which signals this helper got from others than mpiexec. Slurm sends them to all processes of its step here, also to
// the ranks, as systemd does to those of a session that it stops. Grid Engine sends them to the process group of its task, in which we are
// and no rank is.
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

// caught takes a signal to this helper. One to end means the ranks, which may have got it as well: mpiexec is told, and the ranks are
// ended as it orders, or without it after half of their grace, so that it receives what they print and consume (RM-60). Without ranks, or if
// it comes since our keeper was killed, the job ends as if mpiexec were gone.
func (s *session) caught(sig os.Signal) {
	number, _ := sig.(unix.Signal)
	ours := s.prepare != nil && len(s.byRank) > 0 && os.Getppid() == s.parent
	held := ours && s.prepare.Supervision.Held
	if held && s.prepare.Supervision.Twice {
		s.at[number] = time.Now()
	}
	switch {
	case number == unix.SIGXCPU && !held: // the soft limit of this helper alone, which may go on
	case number != unix.SIGTERM && number != unix.SIGINT && number != unix.SIGHUP && number != unix.SIGXCPU:
	case ours && !s.ending:
		s.ending = true
		half := s.prepare.Supervision.Grace / 2
		time.AfterFunc(half, func() { s.tell(unanswered{half}) })
		if why := s.denied.OutOfMemory(s.sys.Root); why != "" || held {
			s.conn.Send(&wire.Caught{Signal: int(number), Why: why})
			return
		}
		s.claims.EvictedBy(s.prepare.Job, func(user string) {
			s.conn.Send(&wire.Caught{Signal: int(number), Why: evictedBy(user)})
		})
	case !ours:
		s.claims.EvictedBy("", func(string) { s.tell(struck{number}) })
	}
}

// struck says that a signal is to end a helper that has no ranks.
type struck struct{ number unix.Signal }

// evictedBy is why a helper is to end, if a user evicts its job.
func evictedBy(user string) string {
	if user == "" {
		return ""
	}
	return "evicted by " + user + " with --evict"
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
